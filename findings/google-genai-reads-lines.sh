#!/usr/bin/env bash
# google-genai 3.4.0 (Python) reads a streamed answer line by line and not as Server-Sent Events: a comment line, which every event
# stream may have at any place (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream) and proxies send
# as a sign of life, ends the stream with an error; two empty lines in its place are passed over.
#
# Seen on 2026-11-28: with ": keep-alive" between two events one text came, then UnknownApiResponseError; with "\n\n" both texts came.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check google-genai==3.4.0
cat > "$folder/ask.py" <<'PY'
import json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from google import genai
from google.genai import types

def event(text):
    return "data: " + json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}]}) + "\n\n"

class Upstream(BaseHTTPRequestHandler):
    sign = ""
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for part in (event("one"), Upstream.sign, event("two")):
            self.wfile.write(part.encode())
            self.wfile.flush()
    def log_message(self, *_): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}"))

def outcome(sign):
    Upstream.sign = sign
    texts = []
    try:
        for chunk in client.models.generate_content_stream(model="gemini-x", contents="Hi"):
            texts.append(chunk.text)
    except Exception as error:
        return texts, type(error).__name__
    return texts, None

print("comment:", outcome(": keep-alive\n\n"))
print("two empty lines:", outcome("\n\n"))
PY
found=$("$folder/venv/bin/python" "$folder/ask.py")
echo "$found"
wanted="comment: (['one'], 'UnknownApiResponseError')
two empty lines: (['one', 'two'], None)"
[ "$found" = "$wanted" ] || { echo "google-genai behaves otherwise now" >&2; exit 1; }
