"""An endpoint for items that posthaste pushes, of Python's standard library alone.

It believes only what is signed, works once for each item, and answers 2xx only when the
work is done.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

MAX_BODY = 1_000_000  # bytes, as much as one item may hold
MAX_HANDLED = 100_000  # ids
TOLERANCE = 300  # seconds that a signature is good for, before and after its time
MAX_SIGNATURES = 10


class Unverified(Exception):
    """A request is not signed, or not as it should be."""


class Never(Exception):
    """No repeat will make sense of an item."""


def keys_of(secrets: str) -> list[bytes]:
    """Reads secrets, with spaces between: whsec_ and base64 each."""
    return [base64.b64decode(s.removeprefix("whsec_"), validate=True) for s in secrets.split()]


def verify(keys: list[bytes], headers, body: bytes) -> str:
    """Returns the item's id if one of the keys signed it with this body, just now."""
    values = [headers.get_all("webhook-" + name) or [] for name in ("id", "timestamp", "signature")]
    if any(len(v) != 1 for v in values):
        raise Unverified("a webhook header is missing, or given twice")
    item_id, timestamp, signatures = (v[0] for v in values)
    # With a dot in the id, the bytes that are signed could be read in two ways.
    if "." in item_id or not re.fullmatch("[0-9]{1,12}", timestamp):
        raise Unverified("a webhook header is malformed")
    if abs(time.time() - int(timestamp)) > TOLERANCE:
        raise Unverified("the signature is too old, or from the future")
    signed = f"{item_id}.{timestamp}.".encode("latin-1") + body
    right = False
    for key in keys:
        want = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
        for got in signatures.split(" ")[:MAX_SIGNATURES]:
            # Takes as long for a wrong one, however much of it is right.
            right |= hmac.compare_digest(got.encode("latin-1"), want)
    if not right:
        raise Unverified("no signature fits")
    return item_id


def work(kind: str, attempt: str, body: bytes) -> None:
    try:
        item = json.loads(body)
    except ValueError as e:
        raise Never from e
    print(f"order {item['order']}: {kind}, attempt {attempt}", flush=True)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections
    timeout = 10  # seconds for the next bytes

    keys: list[bytes] = []
    # The ids of what is done, the oldest first. Better is a table in the database that
    # holds what the work results in: with the id written in the same transaction, no
    # crash has the work done twice.
    handled: dict[str, None] = {}
    one_at_a_time = threading.Lock()

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not re.fullmatch("[0-9]{1,12}", length):
            return self.answer(411, close=True)
        if int(length) > MAX_BODY:
            return self.answer(413, close=True)
        body = self.rfile.read(int(length))
        try:
            item_id = verify(self.keys, self.headers, body)
        except Unverified as e:
            self.log_message("refused: %s", e)  # who sent it learns no more than 401
            return self.answer(401)
        try:
            self.once(item_id, body)
        except Never:
            return self.answer(422, retry="never")  # the item is buried
        except Exception as e:
            self.log_message("failed: %r", e)
            return self.answer(503)  # it comes again
        self.answer(204)

    def once(self, item_id: str, body: bytes) -> None:
        """Works on an item unless it was done."""
        with self.one_at_a_time:
            if item_id in self.handled:
                return
            work(self.text("posthaste-kind"), self.text("posthaste-attempt"), body)
            self.handled[item_id] = None
            if len(self.handled) > MAX_HANDLED:
                del self.handled[next(iter(self.handled))]

    def text(self, name: str) -> str:
        return unquote(self.headers.get(name, ""))

    def answer(self, status: int, retry: str = "", close: bool = False) -> None:
        self.send_response(status)
        if retry:
            self.send_header("posthaste-retry", retry)
        if close:
            self.send_header("connection", "close")
        if status != 204:
            self.send_header("content-length", "0")
        self.end_headers()

    def log_request(self, code="-", size="-") -> None:
        pass  # each request is not worth a line


class Server(ThreadingHTTPServer):
    daemon_threads = False  # the end waits for requests that run


def main() -> None:
    # What subscriptions.create answered; while it is changed, both, with a space between.
    Receiver.keys = keys_of(os.environ.get("WEBHOOK_SECRET", ""))
    if not Receiver.keys:
        raise SystemExit("set WEBHOOK_SECRET")
    host, port = os.environ.get("ADDRESS", "127.0.0.1:8080").split(":")
    with Server((host, int(port)), Receiver) as server:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        print(f"listening on http://{host}:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
