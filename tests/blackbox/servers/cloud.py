"""Bedrock and Vertex, as far as a gateway sees them: signatures and tokens are checked by botocore and google-auth, answers stream in frames.

A model's name says what it does, as in `provider.py`: the first word of `KNOWN` that stands in it. Of Bedrock `frame-X` sends a frame that
is not as it should be. `/account` gives a service account's file, whose tokens are got at `/token`; what its address begins with says how
that goes: `short` gives tokens for a second, `deny` none, `slow` takes a while. `/seen` gives what came.
"""

import base64
import datetime
import json
import struct
import sys
import time
import urllib.parse
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

import google.auth.crypt
import google.auth.jwt
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from provider import EVIL, SECRET, Gemini, Messages, last_text, sse

REGION = "eu-west-1"
# What a test writes in its configuration; no scanner takes this file for a leak.
KEY_ID = "AKIDEXAMPLE" + "OFATEST"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG+" + "bPxRfiCYOFATEST/+="
SESSION = "IQoJb3JpZ2luX2VjE" + "session+of/a=test" * 8
API_KEY = "bedrock-api-key-" + "YmVkcm9jaw"
SKEW_S = 300
KNOWN = ["say", "call", "leak", "evil", "key-back", "frame-", "status-", "stale"]

LOCK = Lock()
SEEN = []
PRIVATE = rsa.generate_private_key(65537, 2048)
PRIVATE_PEM = PRIVATE.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
PUBLIC_PEM = PRIVATE.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
# Tokens that were given, and until when they are good.
TOKENS = {}


def frame(headers, payload):
    head = b"".join(bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode() for name, value in headers.items())
    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    said = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return said + struct.pack(">I", zlib.crc32(said))


def chunk(event, **headers):
    payload = json.dumps({"bytes": base64.b64encode(event).decode(), "p": "abcdefghijkl"}).encode()
    return frame({":event-type": "chunk", ":content-type": "application/json", ":message-type": "event", **headers}, payload)


def exception(kind, message):
    return frame({":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, json.dumps({"message": message}).encode())


def turned(one, at):
    """A frame in which one bit is another."""
    return one[:at] + bytes([one[at] ^ 1]) + one[at + 1:]


def odd(kind):
    """A frame, in the middle of a stream, that is not as it should be."""
    good = chunk(b'{"type":"ping"}')
    prelude = struct.pack(">II", 0x7FFFFFFF, 8)
    return {
        "checksum": turned(good, len(good) - 1),
        "length": turned(good, 3),
        "content": turned(good, 60),
        "endless": prelude + struct.pack(">I", zlib.crc32(prelude)) + b"x" * 64,
        "untyped": chunk(b'{"text":"x"}'),
        "lines": chunk(json.dumps({"type": f"x\n\ndata: {SECRET}"}).encode()),
        "json": chunk(b"no json"),
        "message": frame({":event-type": "chunk"}, good),
        "base64": frame({":event-type": "chunk", ":message-type": "event"}, b'{"bytes":"%%%"}'),
    }[kind]


def inner_events(events):
    """The JSON of each server-sent event."""
    for event in events:
        for line in event.splitlines():
            if line.startswith("data: "):
                yield line[6:].encode()


class Cloud(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, value, **fields):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", "content-length": str(len(body)), **fields}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/account":
            base = f"http://127.0.0.1:{self.server.server_port}"
            return self.answer(200, {
                "type": "service_account", "project_id": "rivers", "private_key_id": "k1", "private_key": PRIVATE_PEM,
                "client_email": "good@rivers.example", "token_uri": f"{base}/token"})
        with LOCK:
            self.answer(200, SEEN)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with LOCK:
            SEEN.append({"path": self.path, "fields": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode()})
        if self.path == "/token":
            return self.token(body)
        return self.bedrock(body) if self.path.startswith("/model/") else self.vertex(body)

    # Google

    def token(self, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return self.answer(400, {"error": "unsupported_grant_type"})
        statement = form["assertion"]
        try:
            said = google.auth.jwt.decode(statement, certs=PUBLIC_PEM, audience=f"http://127.0.0.1:{self.server.server_port}/token")
        except Exception as error:
            return self.answer(400, {"error": "invalid_grant", "error_description": str(error)})
        # The same text signed by google-auth has the same signature.
        signer = google.auth.crypt.RSASigner.from_string(PRIVATE_PEM, "k1")
        text, signature = statement.rsplit(".", 1)
        own = base64.urlsafe_b64encode(signer.sign(text.encode())).decode().rstrip("=")
        header = google.auth.jwt.decode_header(statement)
        if own != signature or header != {"alg": "RS256", "typ": "JWT", "kid": "k1"} or said["scope"] != "https://www.googleapis.com/auth/cloud-platform":
            return self.answer(400, {"error": "invalid_grant"})
        kind = said["iss"].split("@")[0]
        if kind == "deny":
            return self.answer(401, {"error": "invalid_client", "error_description": PRIVATE_PEM[:100]})
        if kind == "slow":
            time.sleep(0.5)
        for_s = 2 if kind == "short" else 3600
        token = f"ya29.{kind}-{len(TOKENS)}-" + "t" * 40
        TOKENS[token] = time.time() + for_s
        self.answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": for_s})

    def vertex(self, body):
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if TOKENS.get(token, 0) < time.time():
            return self.answer(401, {"error": {"code": 401, "message": "invalid credentials", "status": "UNAUTHENTICATED"}})
        path, _, query = self.path.partition("?")
        front, _, verb = path.rpartition(":")
        publisher, model = front.removeprefix("/v1/projects/rivers/locations/europe-west4/publishers/").split("/models/")
        model, body = urllib.parse.unquote(model), json.loads(body)
        if "stale" in model:
            TOKENS[token] = 0
            return self.answer(401, {"error": {"code": 401, "message": "token was withdrawn", "status": "UNAUTHENTICATED"}})
        if publisher == "google" and "contents" not in body:
            return self.answer(400, {"error": {"code": 400, "message": "contents is not there", "status": "INVALID_ARGUMENT"}})
        if publisher == "google":
            assert verb in ("generateContent", "streamGenerateContent", "countTokens"), verb
            if verb == "countTokens":
                return self.answer(200, {"totalTokens": 9})
            dialect, streams = Gemini, verb == "streamGenerateContent"
            assert not streams or query == "alt=sse", query
        elif model == "count-tokens":
            # The model stands in the body there.
            if verb != "rawPredict" or not body.get("model", "").startswith("claude") or body.get("anthropic_version") != "vertex-2023-10-16":
                return self.answer(400, {"error": {"code": 400, "message": "not as it is said here", "status": "INVALID_ARGUMENT"}})
            return self.answer(200, {"input_tokens": 9})
        else:
            # As Google wants Anthropic's dialect.
            if "model" in body or body.get("anthropic_version") != "vertex-2023-10-16" or verb not in ("rawPredict", "streamRawPredict"):
                return self.answer(400, {"error": {"code": 400, "message": "not as it is said here", "status": "INVALID_ARGUMENT"}})
            dialect, streams = Messages, verb == "streamRawPredict"
            assert streams == body.get("stream", False)
        self.say(dialect, streams, model, body, token, lambda events: events, "text/event-stream")

    # Amazon

    def bedrock(self, body):
        if self.headers.get("authorization") != f"Bearer {API_KEY}" and (why := self.is_signed_wrong(body)):
            return self.answer(403, {"message": why}, **{"x-amzn-errortype": "InvalidSignatureException"})
        _, _, model, verb = self.path.split("/")
        model, body = urllib.parse.unquote(model), json.loads(body)
        if "model" in body or "stream" in body or body.get("anthropic_version") != "bedrock-2023-05-31":
            return self.answer(400, {"message": "Malformed input request"}, **{"x-amzn-errortype": "ValidationException"})
        streams = verb == "invoke-with-response-stream"
        if streams != (self.headers["accept"] == "application/vnd.amazon.eventstream"):
            return self.answer(400, {"message": "accept"})
        self.say(Messages, streams, model, body, SESSION, self.frames(model), "application/vnd.amazon.eventstream")

    def is_signed_wrong(self, body):
        """Why the signature is not the one that botocore makes of this request."""
        try:
            scheme, rest = self.headers["authorization"].split(" ", 1)
            said = dict(part.strip().split("=", 1) for part in rest.split(","))
            names = said["SignedHeaders"].split(";")
        except (AttributeError, KeyError, ValueError):
            return "not signed"
        at = self.headers["x-amz-date"]
        when = datetime.datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs(when.timestamp() - time.time()) > SKEW_S:
            return "signature expired"
        scope = f"{KEY_ID}/{at[:8]}/{REGION}/bedrock/aws4_request"
        session = self.headers["x-amz-security-token"]
        needed = {"host", "content-type", "x-amz-date"} | ({"x-amz-security-token"} if session else set())
        if (scheme, said["Credential"]) != ("AWS4-HMAC-SHA256", scope) or not needed <= set(names) or session not in (None, SESSION):
            return "another scope or key, or too little signed"
        auth = SigV4Auth(Credentials(KEY_ID, AWS_SECRET, session), "bedrock", REGION)
        asked = AWSRequest("POST", f"http://{self.headers['host']}{self.path}", {name: self.headers[name] for name in names}, body)
        asked.context["timestamp"] = at
        text = auth.string_to_sign(asked, auth.canonical_request(asked))
        return None if auth.signature(text, asked) == said["Signature"] else "the signature does not match"

    def frames(self, model):
        def framed(events):
            for i, event in enumerate(inner_events(events)):
                if i == 3 and "frame-" in model:
                    kind = model.split("frame-")[1]
                    if kind == "throttled":
                        yield exception("throttlingException", "Too many tokens")
                        return
                    if kind == "error":
                        yield frame({":message-type": "error", ":error-code": "Internal", ":error-message": "broken"}, b"")
                        return
                    if kind == "unknown":
                        yield frame({":message-type": "event", ":event-type": "later"}, b"\xff\x00")
                    elif kind == "cut":
                        yield chunk(event)[:-9]
                        return
                    else:
                        yield odd(kind)
                yield chunk(event)
        return framed

    # Both

    def say(self, dialect, streams, model, body, secret, framed, kind):
        word = next((word for word in KNOWN if word in model), "say")
        if word == "status-":
            status = int(model.split("status-")[1][:3])
            return self.answer(status, {"message": "as the model's name says"}, **({"retry-after": "7"} if status == 429 else {}))
        text, is_call = last_text(body), word in ("call", "evil")
        if word == "evil":
            text = EVIL
        if word == "leak":
            text = "x" * int(text) + f" the key is {SECRET} and no more"
        if word == "key-back":
            text = f"it was asked with {secret}"
        if not streams:
            return self.answer(200, dialect.whole(model, text, is_call), **{"x-amzn-RequestId": "r-1"})
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = dialect.events(model, text, is_call)
        if word == "key-back":
            # A failure in the middle of a stream.
            events = [sse({"type": "error", "error": {"type": "asked_for", "message": text}}, "error")]
        for piece in framed(events):
            piece = piece if isinstance(piece, bytes) else piece.encode()
            # Where a network cuts has nothing to do with where frames end.
            for part in (piece[:7], piece[7:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Cloud)
    server.daemon_threads = True
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()
