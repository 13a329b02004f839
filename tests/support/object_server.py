#!/usr/bin/env python3
"""A web server on loopback for tests of object stores: it serves a folder's files, well or badly, as their URL asks.

  object_server.py FOLDER        prints its port, serves until standard input closes, or for five minutes

  /good/NAME      etag, ranges, If-Match            /once/NAME     the first body of each file breaks off half way
  /plain/NAME     no etag, no time, no ranges       /cut/NAME      every body breaks off after 1,000 new bytes
  /denied/NAME    403                               /dead/NAME     every body breaks off at its beginning
  /busy/NAME      503 twice, then as good           /stall/NAME    headers, then nothing
  /moving/NAME    another etag with each answer     /s3/NAME       403 unless signed for the key TESTKEY
"""
import hashlib, http.server, os, pathlib, re, sys, threading, time, urllib.parse

FOLDER = pathlib.Path(sys.argv[1])
seen, lock = {}, threading.Lock()


def count(key):
    with lock:
        seen[key] = seen.get(key, 0) + 1
        return seen[key]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        with open(FOLDER / "requests.log", "a") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')} {self.headers.get('If-Match', '-')}\n")

    def refuse(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        mode, _, name = urllib.parse.unquote(self.path.split("?")[0]).lstrip("/").partition("/")
        path = FOLDER / name
        times = count(self.path)
        if mode == "s3" and "Credential=TESTKEY/" not in self.headers.get("Authorization", ""):
            return self.refuse(403, "<Error><Code>AccessDenied</Code></Error>")
        if mode == "denied":
            return self.refuse(403, "no")
        if mode == "busy" and times <= 2:
            return self.refuse(503, "later")
        if not path.is_file():
            return self.refuse(404, "<Error><Code>NoSuchKey</Code></Error>")
        body = path.read_bytes()
        etag = '"' + hashlib.md5(body + (str(times).encode() if mode == "moving" else b"")).hexdigest() + '"'
        named = mode != "plain"
        if named and self.headers.get("If-Match", etag) != etag:
            return self.refuse(412, "changed")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if named else None
        begin = int(wanted[1]) if wanted else 0
        end = min(len(body), int(wanted[2]) + 1) if wanted and wanted[2] else len(body)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(body)}")
        if named:
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", "Tue, 01 Dec 2026 10:00:00 GMT")
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        part = body[begin:end]
        if mode == "stall":
            self.wfile.flush()
            time.sleep(5)
        limit = {"once": len(part) // 2 if times == 1 else None, "cut": 1000, "moving": 1000, "dead": 0, "stall": 0}.get(mode)
        if limit is not None and limit < len(part):
            self.wfile.write(part[:limit])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(part)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Timer(300, lambda: os._exit(1)).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
os._exit(0)
