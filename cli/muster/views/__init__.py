"""Pictures of data, pure: plain JSON as REST has it in, tables for people out. `amounts` words numbers and times, the
others are named after what they show.
"""
