// A server on standard input and output with the official SDK for TypeScript. Its third argument says where that is.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";

const [file, schema, installed] = process.argv.slice(2);
const require = createRequire(installed);
const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = require("@modelcontextprotocol/sdk/types.js");

const NAMED = { echo: "Gives back its text and path.", forbidden: "A tool that the tests' policy does not permit." };
const server = new Server({ name: "ts-sdk", version: "1" }, { capabilities: { tools: {} } });

server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: Object.entries(NAMED).map(([name, description]) => ({ name, description, inputSchema: JSON.parse(schema) })),
}));

server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
  const { text, path } = params.arguments ?? {};
  appendFileSync(file, JSON.stringify({ ran: params.name, arguments: { text, path } }) + "\n");
  return { content: [{ type: "text", text: `${text} ${path}` }] };
});

await server.connect(new StdioServerTransport());
