"""The core's questions: who is next, what fits, where; a plan reads the world and keeps its what-ifs aside."""
