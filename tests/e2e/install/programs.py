"""Runs the command-line programs of an installation."""

import asyncio


async def output_of(*command: object, check: bool = True) -> str:
    """Return the output of a program, standard error included. A failure raises AssertionError with the output."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    text = (await process.communicate())[0].decode()
    assert process.returncode == 0 or not check, text
    return text
