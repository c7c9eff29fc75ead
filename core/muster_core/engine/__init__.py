"""The only writer: takes an event or a decision, changes the world once, and returns what has to be said."""
