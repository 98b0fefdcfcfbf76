"""Call the tools of `rag mcp` as an agent does (`pip install . mcp`)."""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SOURCE = sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo"


async def main() -> None:
    server = StdioServerParameters(command="rag", args=["mcp", "--repo", SOURCE])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        found = await session.call_tool("search_code", {"query": "Where is a token checked?"})
        print(found.content[0].text)


asyncio.run(main())
