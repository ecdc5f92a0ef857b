// Clients of OAuth that others wrote. Arguments: the folder of node_modules, which client, the gateway's URL, the agent, the file of its
// private key (PKCS #8, P-256), and what else the client needs. What came is printed as JSON.
//
//   openid-client, oauth4webapi   a token by private_key_jwt, bound by DPoP; who that is; introspected, revoked, refused
//   dpop ALG                      one proof: also needs METHOD URL NONCE TOKEN
//   sdk URL                       the TypeScript SDK of MCP finds the token service by itself and calls a tool

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, kind, base, agent, file, ...more] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const pem = readFileSync(file, "utf8");
const der = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ""), "base64");
const key = () => crypto.subtle.importKey("pkcs8", der, { name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);

async function openidClient() {
  const client = await load("openid-client");
  const insecure = { algorithm: "oauth2", execute: [client.allowInsecureRequests] };
  const config = await client.discovery(new URL(base), agent, undefined, client.PrivateKeyJwt(await key()), insecure);
  const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair("ES256"));
  const tokens = await client.clientCredentialsGrant(config, { scope: "identity mcp" }, { DPoP });
  const ask = (options) => client.fetchProtectedResource(config, tokens.access_token, new URL(`${base}/whoami`), "GET", undefined, undefined, options);
  const who = await (await ask({ DPoP })).json();
  const again = await (await ask({ DPoP })).json();
  const active = await client.tokenIntrospection(config, tokens.access_token);
  await client.tokenRevocation(config, tokens.access_token);
  const revoked = await ask({ DPoP }).then((answer) => answer.status, (error) => error.status ?? error.response?.status);
  const after = await client.tokenIntrospection(config, tokens.access_token);
  return { type: tokens.token_type, scope: tokens.scope, who, again, active, revoked, after };
}

async function oauth4webapi() {
  const oauth = await load("oauth4webapi");
  const insecure = { [oauth.allowInsecureRequests]: true };
  const issuer = new URL(base);
  const found = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure });
  const server = await oauth.processDiscoveryResponse(issuer, found);
  const client = { client_id: agent };
  const keys = await oauth.generateKeyPair(more[0] ?? "ES256");
  const DPoP = oauth.DPoP(client, keys);
  const grant = async () => {
    const asked = await oauth.clientCredentialsGrantRequest(server, client, oauth.PrivateKeyJwt(await key()), { resource: `${base}/whoami` }, { DPoP, ...insecure });
    return oauth.processClientCredentialsResponse(server, client, asked);
  };
  const retried = async (once) => {
    try {
      return await once();
    } catch (error) {
      if (!oauth.isDPoPNonceError(error)) throw error;
      return once();
    }
  };
  const tokens = await retried(grant);
  const who = await retried(async () => {
    const answer = await oauth.protectedResourceRequest(tokens.access_token, "GET", new URL(`${base}/whoami`), new Headers(), null, { DPoP, ...insecure });
    return answer.json();
  });
  // Held against RFC 9068 as a resource server of its own would.
  const proof = more[1] ?? "none";
  return { who, type: tokens.token_type, token: tokens.access_token, proof };
}

async function dpop() {
  const { generateProof, generateKeyPair } = await load("dpop");
  const [algorithm, method, url, nonce, token] = more;
  const keys = await generateKeyPair(algorithm, { extractable: true });
  return { proof: await generateProof(keys, url, method, nonce || undefined, token || undefined) };
}

async function sdk() {
  const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { PrivateKeyJwtProvider } = require("@modelcontextprotocol/sdk/client/auth-extensions.js");
  const authProvider = new PrivateKeyJwtProvider({ clientId: agent, privateKey: pem, algorithm: "ES256" });
  const transport = new StreamableHTTPClientTransport(new URL(more[0]), { authProvider });
  const client = new Client({ name: "blackbox", version: "1" });
  await client.connect(transport);
  const { content } = await client.callTool({ name: "echo", arguments: { text: "by a token" } });
  await client.close();
  return { text: content[0].text, token: authProvider.tokens().access_token };
}

const kinds = { "openid-client": openidClient, oauth4webapi, dpop, sdk };
console.log(JSON.stringify(await kinds[kind]()));
