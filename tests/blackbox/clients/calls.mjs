// The official TypeScript clients of both generations. Standard input is a list of {url, calls}: for each URL the tools are
// listed and the calls made, with the key in WEIR_KEY; standard output is what came of each.
//
// Arguments: the folder of node_modules, then `sdk` (the generation before) or a mode of the client of today: `legacy`,
// `auto`, or a revision.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, generation] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const load = async (name) => import(pathToFileURL(require.resolve(name)));

async function connected(url) {
  const options = { requestInit: { headers: { authorization: `Bearer ${process.env.WEIR_KEY}` } } };
  const info = { name: "blackbox", version: "1" };
  if (generation === "sdk") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client(info);
    const transport = new StreamableHTTPClientTransport(new URL(url), options);
    await client.connect(transport);
    return [client, () => transport.protocolVersion];
  }
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const mode = generation.startsWith("20") ? { pin: generation } : generation;
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
  return [client, () => client.getNegotiatedProtocolVersion()];
}

async function made(client, call) {
  try {
    const answer = await client.callTool(call);
    return { text: answer.content.map((part) => part.text ?? "").join(""), error: answer.isError ?? false };
  } catch (error) {
    return { refused: error.message, code: error.code };
  }
}

const seen = [];
for (const { url, calls } of JSON.parse(readFileSync(0, "utf8"))) {
  const [client, revision] = await connected(url);
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  const answers = [];
  for (const call of calls) answers.push(await made(client, call));
  seen.push({ revision: revision(), tools, calls: answers });
  await client.close();
}
console.log(JSON.stringify(seen));
