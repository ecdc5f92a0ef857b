// Identity providers that others wrote. Arguments: the folder of node_modules and which one: `oidc-provider` (certified by the OpenID
// Foundation) or `oauth2-mock-server`. Prints its URL as a line of JSON, then answers each line of standard input, which is
// the subject of a token that is wanted, by one line with the token. `rotate` makes other keys. Ends with its standard input.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { generateKeyPairSync } from "node:crypto";
import { pathToFileURL } from "node:url";

// Standard output is for answers alone.
console.info = console.error;

const [folder, kind] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function certified() {
  const { default: Provider } = await load("oidc-provider");
  const { createServer } = require("node:http");
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const jwk = { ...privateKey.export({ format: "jwk" }), kid: "one", alg: "ES256", use: "sig" };
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const names = ["ci", "other"];
  const clients = names.map((name) => ({
    client_id: name, client_secret: `the secret of ${name}`, grant_types: ["client_credentials"], redirect_uris: [], response_types: [],
    id_token_signed_response_alg: "ES256",
  }));
  const resource = { scope: "read", audience: "weir", accessTokenFormat: "jwt", accessTokenTTL: 300, jwt: { sign: { alg: "ES256" } } };
  const provider = new Provider(url, {
    clients, jwks: { keys: [jwk] },
    features: {
      devInteractions: { enabled: false }, clientCredentials: { enabled: true },
      resourceIndicators: { enabled: true, getResourceServerInfo: () => resource, defaultResource: () => "urn:weir" },
    },
  });
  server.on("request", provider.callback());
  const token = async (name) => {
    const body = new URLSearchParams({ grant_type: "client_credentials", resource: "urn:weir" });
    const secret = encodeURIComponent(`the secret of ${name}`).replaceAll("%20", "+");
    const authorization = `Basic ${Buffer.from(`${name}:${secret}`).toString("base64")}`;
    const answer = await fetch(`${url}/token`, { method: "POST", body, headers: { authorization } });
    const said = await answer.json();
    if (!said.access_token) throw new Error(JSON.stringify(said));
    return said.access_token;
  };
  return { url, token, rotate: () => {} };
}

async function mock() {
  const { OAuth2Server } = await load("oauth2-mock-server");
  const server = new OAuth2Server();
  let { kid } = await server.issuer.keys.generate("RS256");
  await server.start(0, "127.0.0.1");
  const url = `http://127.0.0.1:${server.address().port}`;
  server.issuer.url = url;
  const token = (sub) => server.issuer.buildToken({
    kid, scopesOrTransform: (_, payload) => Object.assign(payload, { sub, aud: "weir" }),
  });
  return { url, token, rotate: async () => ({ kid } = await server.issuer.keys.generate("PS256")) };
}

const issuer = await { "oidc-provider": certified, "oauth2-mock-server": mock }[kind]();
console.log(JSON.stringify({ url: issuer.url }));
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "rotate") {
    await issuer.rotate();
    console.log("rotated");
  } else {
    console.log(await issuer.token(line));
  }
}
process.exit(0);
