"""The ConfigMaps: read and merged (``configmaps``), checked (``settings``), taken while running (``reconfigure``)."""
