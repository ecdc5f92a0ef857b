"""fastmcp's client finds where tokens are and calls a tool. Arguments: the server's URL, the issuer, the agent, the file of its key."""

import asyncio
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.auth import PrivateKeyJWTOAuthProvider, SignedJWTParameters


async def main(url, issuer, agent, file):
    signs = SignedJWTParameters(issuer=agent, subject=agent, signing_key=Path(file).read_text(), signing_algorithm="ES256")
    auth = PrivateKeyJWTOAuthProvider(client_id=agent, assertion_provider=signs.create_assertion_provider(), issuer=issuer)
    async with Client(url, auth=auth) as client:
        answer = await client.call_tool("echo", {"text": "by a token"})
        print("".join(part.text for part in answer.content))


asyncio.run(main(*sys.argv[1:]))
