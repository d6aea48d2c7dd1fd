#!/usr/bin/env bash
# together 3.1.1 (Python) passes over every event of a stream that has a name: an error that an upstream sends as `event: error`, with the
# same `data:` object that it raises for without a name, ends the stream as if the answer were whole.
#
# Seen on 2026-11-28: with "event: error" one fragment and no error, without that line APIError with the upstream's words.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check together==3.1.1
cat > "$folder/ask.py" <<'PY'
import json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from together import Together

chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}, "finish_reason": None}]}
error = {"error": {"message": "the model went away", "type": "server_error", "code": "upstream_unreachable"}}

class Upstream(BaseHTTPRequestHandler):
    name = ""
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for part in (f"data: {json.dumps(chunk)}\n\n", f"{Upstream.name}data: {json.dumps(error)}\n\n", "data: [DONE]\n\n"):
            self.wfile.write(part.encode())
    def log_message(self, *_): pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Together(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1", max_retries=0)

def outcome(name):
    Upstream.name = name
    texts = []
    try:
        for part in client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}], stream=True):
            texts.append(part.choices[0].delta.content)
    except Exception as fault:
        return texts, type(fault).__name__, "the model went away" in str(fault)
    return texts, None, False

print("named:", outcome("event: error\n"))
print("without a name:", outcome(""))
PY
found=$("$folder/venv/bin/python" "$folder/ask.py")
echo "$found"
wanted="named: (['Hel'], None, False)
without a name: (['Hel'], 'APIError', True)"
[ "$found" = "$wanted" ] || { echo "together behaves otherwise now" >&2; exit 1; }
