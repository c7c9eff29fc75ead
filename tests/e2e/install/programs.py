"""Runs the programs that people install with."""

from __future__ import annotations

import asyncio


async def said(*command: object, check: bool = True) -> str:
    """What a program prints, errors included. AssertionError with it where it fails."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    text = (await process.communicate())[0].decode()
    assert process.returncode == 0 or not check, text
    return text
