"""Keys, invites and proofs of the tests, made with `cryptography` and PyJWT, and a gateway that has identities."""

import base64
import hashlib
import json
import time
import uuid
from urllib.parse import urlencode

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from gateway import Gateway

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PASSPHRASE = "correct horse battery staple"


def b64(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def sha256(text):
    return b64(hashlib.sha256(text.encode()).digest())


class Key:
    """A private key, and what it signs."""

    def __init__(self, kind="ES256"):
        make = {"ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
                "EdDSA": ed25519.Ed25519PrivateKey.generate,
                "RS256": lambda: rsa.generate_private_key(65537, 2048),
                "PS256": lambda: rsa.generate_private_key(65537, 2048)}
        self.alg, self.private = kind, make[kind]()
        algorithm = jwt.get_algorithm_by_name(kind)
        jwk = json.loads(algorithm.to_jwk(self.private.public_key()))
        self.jwk = {name: value for name, value in jwk.items() if name != "key_ops"}

    def pem(self):
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self.private.private_bytes(encoding, form, serialization.NoEncryption()).decode()

    def sign(self, claims, **header):
        return jwt.encode(claims, self.private, algorithm=self.alg, headers=header)

    def csr(self, *uris):
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        if uris:
            names = [x509.UniformResourceIdentifier(uri) for uri in uris]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        request = builder.sign(self.private, None if self.alg == "EdDSA" else hashes.SHA256())
        return request.public_bytes(serialization.Encoding.PEM).decode()

    def proof(self, method, url, token=None, nonce=None, header=None, **claims):
        said = {"jti": str(uuid.uuid4()), "htm": method, "htu": url, "iat": int(time.time())}
        if token:
            said["ath"] = sha256(token)
        if nonce:
            said["nonce"] = nonce
        said = {name: value for name, value in {**said, **claims}.items() if value is not None}
        return self.sign(said, **{"typ": "dpop+jwt", "jwk": self.jwk, **(header or {})})

    def assertion(self, agent, audience, **claims):
        now = int(time.time())
        said = {"iss": agent, "sub": agent, "aud": audience, "jti": str(uuid.uuid4()), "iat": now, "exp": now + 60}
        return self.sign({name: value for name, value in {**said, **claims}.items() if value is not None})


class Identities(Gateway):
    """A gateway with identities, and with an authority where that is asked for."""

    def __init__(self, folder, mcp, authority=False, identity=None, **settings):
        identity = {"trust_domain": "example.org", **(identity or {})}
        self.public = settings.get("public_url")
        if authority:
            identity["passphrase"] = "file:ca.pass"
        super().__init__(folder, mcp, identity=identity, **settings)
        if authority:
            (self.folder / "ca.pass").write_text(PASSPHRASE)
            if not (self.state / "ca").exists():
                self.weir("ca", "init")

    def start(self):
        self.began = int(time.time())
        return super().start()

    @property
    def base(self):
        return self.public or f"http://127.0.0.1:{self.port}"

    def invite(self, name, *more):
        return json.loads(self.weir("agents", "invite", name, "--json", *more).stdout)["invite"]

    def send(self, path, body, **headers):
        raw = json.dumps(body).encode()
        return self.request("POST", path, raw, {"content-type": "application/json", **headers})

    def form(self, path, parameters, **headers):
        fields = {"content-type": "application/x-www-form-urlencoded", **headers}
        return self.request("POST", path, urlencode(parameters), fields)

    def enrol(self, name, *more, key=None):
        """Enrols a public key, and gives it."""
        key = key or Key()
        invite = self.invite(name, "--approved", *more)
        proof = key.sign({"aud": self.base, "invite": sha256(invite)}, typ="weir-enrol+jwt")
        answer = self.send("/enrol", {"invite": invite, "jwk": key.jwk, "proof": proof})
        assert answer.status == 201, answer.body
        return key

    def token(self, agent, key, proof_key=None, check=True, **parameters):
        """Asks for a token by an assertion; bound to the proof's key where there is one."""
        endpoint = f"{self.base}/oauth/token"
        nonce = None
        for _ in range(2):
            headers = {"dpop": proof_key.proof("POST", endpoint, nonce=nonce)} if proof_key else {}
            said = {"grant_type": "client_credentials", "client_assertion_type": JWT_BEARER,
                    "client_assertion": key.assertion(agent, self.base), **parameters}
            answer = self.form("/oauth/token", said, **headers)
            if answer.status == 400 and answer.json()["error"] == "use_dpop_nonce":
                nonce = answer.headers["dpop-nonce"]
                continue
            break
        assert not check or answer.status == 200, answer.body
        return answer.json()["access_token"] if check else answer

    def nonce(self):
        return self.request("GET", "/whoami").headers["dpop-nonce"]

    def whoami(self, authorization=None, proof=None, connection=None):
        headers = {"authorization": authorization} if authorization else {}
        if proof:
            headers["dpop"] = proof
        return self.request("GET", "/whoami", headers=headers, connection=connection)

    def bound(self, token, key, **claims):
        """Asks who that is, with a token and a fresh proof of its key."""
        claims = {"nonce": self.nonce(), **claims}
        return self.whoami(f"DPoP {token}", key.proof("GET", f"{self.base}/whoami", token, **claims))
