#!/usr/bin/env python3
"""bench.py - the HTTP benchmarks, each beside its peer in the same run, alternating; prints Markdown.

    bench/bench.py --build DIR [--seconds N] [--rounds N] get put hot churn expiry cold import start cpu

DIR is a release build (meson setup DIR --buildtype=release) with the targets palimpsest and bare. Needs wrk and
nginx. All servers listen on 127.0.0.1 on free ports and are ended by pid. Ratios are the median over rounds of
pairs measured one after the other; absolute figures only say what this machine did at that minute."""
import argparse, gzip, http.client, json, os, random, re, shutil, statistics, subprocess, sys, tempfile, threading, time
import urllib.parse

from procs import DEADLINE_S, Nginx, Proc

WORDS = ("palimpsest", "render", "revision", "title", "the", "of", "and", "is", "page", "store", "kept", "wiki", "edit",
         "history", "section", "reference", "bundle", "content", "superseded", "latest", "culled", "grace", "window")


def html(size, seed):
    """Pseudo-HTML that compresses about as a rendered article does (to 35-40 %)."""
    rng = random.Random(seed)
    out, n = ["<!DOCTYPE html><html><head><title>x</title></head><body>\n"], 60
    while n < size - 80:
        line = "<p id=\"mw%04x\"><a href=\"./%s_%d\">%s</a> %s %08x</p>\n" % (
            rng.randrange(65536), rng.choice(WORDS), rng.randrange(1000), rng.choice(WORDS),
            " ".join(rng.choice(WORDS) for _ in range(8)), rng.getrandbits(32))
        out.append(line)
        n += len(line)
    text = "".join(out) + "</body></html>"
    return (text + " " * size)[:size]


class Bench:
    def __init__(self, args):
        self.args = args
        self.dir = tempfile.mkdtemp(prefix="bench-", dir=args.tmp)
        self.procs = []

    def close(self):
        for p in self.procs:
            p.end()
        shutil.rmtree(self.dir, ignore_errors=True)

    def palimpsest(self, data, *sets, hooks=False, prefix=()):
        argv = list(prefix) + [os.path.join(self.args.build, "palimpsest"), "serve", "--data", os.path.join(self.dir, data),
                               "--listen", "127.0.0.1:0", "--domain", "bench.test"]
        for s in sets:
            argv += ["--set", s]
        if hooks:
            argv.append("--test-hooks")
        p = Proc(argv, "listening on ", stderr=os.path.join(self.dir, "palimpsest.log"))
        self.procs.append(p)
        return p

    def bare(self, mode):
        p = Proc([os.path.join(self.args.build, "bench", "bare"), os.path.join(self.dir, "bare-" + mode), mode], "listening on ")
        self.procs.append(p)
        return p

    def nginx(self, body):
        p = Nginx(self.dir, body.encode())
        self.procs.append(p)
        return p

    def wrk(self, url, conns, seconds=None, headers=(), script=None, script_args=(), threads=1):
        if not script:
            warm(url, headers)
        argv = ["wrk", "-t%d" % threads, "-c%d" % conns, "-d%gs" % (seconds or self.args.seconds), "--latency", "--timeout", "30s"]
        for h in headers:
            argv += ["-H", h]
        if script:
            argv += ["-s", script]
        out = subprocess.run(argv + [url] + (["--"] + list(map(str, script_args)) if script_args else []), text=True,
                             capture_output=True).stdout
        res = {"rps": float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))}
        for q in ("50", "99"):
            v, unit = re.search(r"\s%s%%\s+([\d.]+)(us|ms|s)" % q, out).groups()
            res["p" + q] = float(v) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        err = re.search(r"Socket errors: (.*)", out)
        if bad or err:
            print("!! %s: %s %s" % (url, bad and bad.group(0), err and err.group(0)), file=sys.stderr)
        return res


def request(url, method, path, body=None, headers=None):
    u = urllib.parse.urlparse(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=DEADLINE_S)
    c.request(method, path, body, headers or {})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, dict((k.lower(), v) for k, v in r.getheaders()), data


def warm(url, headers=()):
    """An answer is made ready at the second request, that of a superseded revision at the third. The peers' too."""
    for _ in range(3):
        request(url, "GET", urllib.parse.urlparse(url).path, headers=dict(h.split(": ", 1) for h in headers))


def put_page(url, title, rev, body):
    status, headers, data = request(url, "PUT", "/bench.test/v1/page/html/%s/%d" % (title, rev), body, {"Content-Type": "text/html; charset=utf-8"})
    if status not in (200, 201):
        raise SystemExit("PUT %s/%d: %d %r" % (title, rev, status, data[:300]))
    return json.loads(data)


def metric(url, name):
    text = request(url, "GET", "/metrics")[2].decode()
    for line in text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    return float("nan")


def med(values):
    return statistics.median(values)


def du(path):
    total = 0
    for root, _, files in os.walk(path):
        for f in files:
            try:
                total += os.lstat(os.path.join(root, f)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def compare(b, cases, title):
    """cases: list of (name, fn -> result); the last is the peer. Prints medians and ratios to the peer."""
    rows = {name: [] for name, _ in cases}
    for _ in range(b.args.rounds):
        for name, fn in cases:
            rows[name].append(fn())
    peer = cases[-1][0]
    print("| %s | req/s | p50 us | p99 us | requests/s against %s | p99 against %s |\n| --- | ---: | ---: | ---: | ---: | ---: |" % (title, peer, peer))
    for name, _ in cases:
        r, q = rows[name], rows[peer]
        print("| %s | %.0f | %.0f | %.0f | %.2fx | %.2fx |" % (
            name, med(x["rps"] for x in r), med(x["p50"] for x in r), med(x["p99"] for x in r),
            med([x["rps"] / y["rps"] for x, y in zip(r, q)]), med([x["p99"] / y["p99"] for x, y in zip(r, q)])))
    print(flush=True)


def bench_get(b):
    body = html(20000, 1)
    ours, nginx, bare = b.palimpsest("get"), b.nginx(body), b.bare("none")
    old = put_page(ours.url, "Page", 1, html(20000, 2))
    put_page(ours.url, "Page", 2, body)
    base = ours.url + "/bench.test/v1/page/html/Page"
    exact = base + "/1/" + old["tid"]
    for coding in ("identity", "gzip"):
        h = ["Accept-Encoding: gzip"] if coding == "gzip" else []
        for conns in (2, 16, 64):
            compare(b, [
                ("latest", lambda: b.wrk(base, conns, headers=h)),
                ("revision, recent", lambda: b.wrk(base + "/1", conns, headers=h)),
                ("exact, recent", lambda: b.wrk(exact, conns, headers=h)),
                ("bare (12 bytes)", lambda: b.wrk(bare.url + "/", conns, headers=h)),
                ("nginx", lambda: b.wrk(nginx.url + "/page.html", conns, headers=h)),
            ], "GET 20 KB, %s, %d connections" % (coding, conns))


PUT_LUA = """
local pad = "%s"
local id, rev, threads = 0, 0, 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function init(args) mode = args[1] or "spread"; base = tonumber(args[2] or "0"); titles = tonumber(args[3] or "5000") end
function request()
  rev = rev + 1
  local t = mode == "hot" and "Hot" or string.format("T%%d_%%d", id, rev %% titles)
  local n = base + rev
  return wrk.format("PUT", "/bench.test/v1/page/html/" .. t .. "/" .. n, {["Content-Type"] = "text/html"}, string.format("<!--%%016d-->", n) .. pad)
end
"""


PUT_GZIP_LUA = """
local file = io.open("%s", "rb")
local body = file:read("*a")
local fields = {["Content-Type"] = "text/html", ["Content-Encoding"] = "gzip"}
local rev = 0
function init(args) base = tonumber(args[1]) end
function request()
  rev = rev + 1
  return wrk.format("PUT", string.format("/bench.test/v1/page/html/Z%%d/%%d", rev %% 5000, base + rev), fields, body)
end
"""


def put_gzip_script(b, size):
    body, path = os.path.join(b.dir, "put.gz"), os.path.join(b.dir, "put_gzip.lua")
    with open(body, "wb") as f:
        f.write(gzip.compress(html(size, 3).encode(), 6))
    with open(path, "w") as f:
        f.write(PUT_GZIP_LUA % body)
    return path


def put_script(b, size, name="put.lua"):
    path = os.path.join(b.dir, name)
    text = html(size - 23, 3).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    with open(path, "w") as f:
        f.write(PUT_LUA % text)
    return path


def bench_put(b):
    script = put_script(b, 20000)
    ours, bare = b.palimpsest("put", "page.grace_ttl=1m"), b.bare("sync")
    base = [0]

    def run(url, conns):
        base[0] += 10 ** 7
        return b.wrk(url, conns, script=script, script_args=("spread", base[0]))
    for conns in (1, 8, 64):
        compare(b, [("palimpsest", lambda: run(ours.url, conns)), ("bare, synced", lambda: run(bare.url, conns))],
                "durable PUT 20 KB, %d clients" % conns)
    zipped = put_gzip_script(b, 20000)

    def run_zipped(url, conns):
        base[0] += 10 ** 7
        return b.wrk(url, conns, script=zipped, script_args=(base[0],))
    for conns in (1, 8, 64):
        compare(b, [("palimpsest", lambda: run_zipped(ours.url, conns)), ("bare, synced", lambda: run_zipped(bare.url, conns)),
                    ("palimpsest, sent as they are", lambda: run(ours.url, conns))],
                "durable PUT of 20 KB sent as gzip, %d clients" % conns)
    print("Peer: RESTBase on SQLite gave 460 PUT/s of 20 KB on such a machine (20 KB, 16 connections).\n")


def bench_hot(b):
    n = int(b.args.count or 1000000)
    ours = b.palimpsest("hot", "page.grace_ttl=2s", "page.historical_ttl=2s")
    spread, hot = put_script(b, 20000), put_script(b, 2000, "hot.lua")
    body = html(20000, 5)
    for i in range(64):
        put_page(ours.url, "Fresh%d" % i, 1, body)
    while metric(ours.url, "palimpsest_engine_live_bytes") < 110e6:
        b.wrk(ours.url, 16, seconds=5, script=spread, script_args=("spread", 1, 20000))
    print("live before: %.0f MB" % (metric(ours.url, "palimpsest_engine_live_bytes") / 1e6))
    done, rounds, began = 0, 0, time.monotonic()
    while done < n:
        before = metric(ours.url, "palimpsest_pages_puts_total")
        b.wrk(ours.url, 16, seconds=20, script=hot, script_args=("hot", 1 + rounds * 10 ** 7))
        done += metric(ours.url, "palimpsest_pages_puts_total") - before
        rounds += 1
    print("%d supersessions of one title in %.0f s" % (done, time.monotonic() - began))
    put_page(ours.url, "Hot", 10 ** 12, body)
    compare(b, [("hot title", lambda: b.wrk(ours.url + "/bench.test/v1/page/html/Hot", 16)),
                ("fresh title", lambda: b.wrk(ours.url + "/bench.test/v1/page/html/Fresh1", 16))], "latest, after the supersessions")
    compare(b, [("hot title", lambda: b.wrk(ours.url + "/bench.test/v1/page/html/Hot", 16, headers=["Cache-Control: no-cache"])),
                ("fresh title", lambda: b.wrk(ours.url + "/bench.test/v1/page/html/Fresh1", 16, headers=["Cache-Control: no-cache"]))],
            "the same past the ready answers")
    time.sleep(60)
    live, disk = metric(ours.url, "palimpsest_engine_live_bytes"), du(os.path.join(b.dir, "hot"))
    print("60 s after: live %.0f MB, disk %.0f MB = %.2fx, RSS %.0f MB\n" % (live / 1e6, disk / 1e6, disk / live, ours.rss_mb()), flush=True)


def device_bytes(pid):
    for line in open("/proc/%d/io" % pid):
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    return 0


def bench_churn(b):
    ours = b.palimpsest("churn", "page.grace_ttl=5s")
    script = put_script(b, 20000)
    began, w0 = time.monotonic(), device_bytes(ours.p.pid)
    worst = 0
    seconds = int(b.args.count or 120)
    while time.monotonic() - began < seconds:
        b.wrk(ours.url, 16, seconds=10, script=script, script_args=("spread", 1 + int(time.monotonic() - began) * 10 ** 6, 15000))
        live, disk = metric(ours.url, "palimpsest_engine_live_bytes"), du(os.path.join(b.dir, "churn"))
        worst = max(worst, disk / live)
        print("%4.0f s: live %.0f MB, disk %.0f MB = %.2fx" % (time.monotonic() - began, live / 1e6, disk / 1e6, disk / live), flush=True)
    stored = metric(ours.url, "palimpsest_engine_log_written_bytes_total")
    print("log bytes %.0f MB, process writes %.2fx of them" % (stored / 1e6, (device_bytes(ours.p.pid) - w0) / stored))
    until = time.monotonic() + 60
    while time.monotonic() < until:
        time.sleep(5)
    live, disk = metric(ours.url, "palimpsest_engine_live_bytes"), du(os.path.join(b.dir, "churn"))
    print("60 s after: live %.0f MB, disk %.0f MB = %.2fx (worst under load %.2fx)\n" % (live / 1e6, disk / 1e6, disk / live, worst), flush=True)


def bench_expiry(b):
    grace = 5
    ours = b.palimpsest("expiry", "page.grace_ttl=%ds" % grace, "page.historical_ttl=0s")
    u = urllib.parse.urlparse(ours.url)
    body, stop, lags, served = html(2000, 9), threading.Event(), [], [0, 0]
    due = []                         # (instant it must be gone, path)
    seconds, rate = int(b.args.count or 60), 500

    def writer():
        c = http.client.HTTPConnection(u.hostname, u.port, timeout=DEADLINE_S)
        began, n, last = time.monotonic(), 0, {}
        while not stop.is_set():
            n += 1
            title = "E%d" % (n % 1000)
            c.request("PUT", "/bench.test/v1/page/html/%s/%d" % (title, n), body + str(n), {"Content-Type": "text/html"})
            r = c.getresponse()
            got = json.loads(r.read())
            if title in last:
                due.append((time.time() + grace, last[title]))
            last[title] = "/bench.test/v1/page/html/%s/%d/%s" % (title, n, got["tid"])
            wait = began + n / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)

    def reader():
        c = http.client.HTTPConnection(u.hostname, u.port, timeout=DEADLINE_S)
        while not stop.is_set():
            if not due or due[0][0] > time.time():
                time.sleep(0.001)
                continue
            _, path = due.pop(0)
            c.request("GET", path)
            r = c.getresponse()
            r.read()
            served[0] += 1
            served[1] += r.status == 200
    threads = [threading.Thread(target=f) for f in (writer, reader)]
    for t in threads:
        t.start()
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(0.2)
        lags.append(metric(ours.url, "palimpsest_pages_overdue_ns_max") / 1e9)
    stop.set()
    for t in threads:
        t.join()
    print("%d supersessions/s for %d s, grace %d s: culls came at most %.3f s late; read at their due time %d, of these served %d\n" % (
        rate, seconds, grace, max(lags), served[0], served[1]), flush=True)


def load(b, ours, pages, size):
    """Titles T0_2 and on: wrk calls request() once before it begins."""
    script = put_script(b, size, "load.lua")
    rounds = 0
    began = time.monotonic()
    while metric(ours.url, "palimpsest_pages_puts_total") < pages:
        b.wrk(ours.url, 64, seconds=20, script=script, script_args=("spread", 1 + rounds * 10 ** 7, 10 ** 9))
        rounds += 1
    return metric(ours.url, "palimpsest_pages_puts_total"), time.monotonic() - began


GET_LUA = """
function init(args) n = tonumber(args[1]); math.randomseed(os.time()) end
function request() return wrk.format("GET", "/bench.test/v1/page/html/T0_" .. math.random(2, n)) end
"""


def bench_cold(b):
    size, limit_mb = 20000, int(b.args.limit_mb)
    ours = b.palimpsest("cold", "page.grace_ttl=never")
    n, took = load(b, ours, int(b.args.count or 200000), size)
    disk = du(os.path.join(b.dir, "cold"))
    ours.end()
    group = "/sys/fs/cgroup/palimpsest-bench-%d" % os.getpid()
    try:
        os.mkdir(group)
        with open(group + "/memory.max", "w") as f:
            f.write(str(limit_mb << 20))
    except OSError as why:
        print("no cgroup here (%s): cold reads were not measured\n" % why)
        return
    subprocess.run(["sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"])
    ours = b.palimpsest("cold", "page.grace_ttl=never", prefix=["sh", "-c", 'echo $$ > %s/cgroup.procs; exec "$@"' % group, "sh"])
    path = os.path.join(b.dir, "get.lua")
    with open(path, "w") as f:
        f.write(GET_LUA)
    print("%d pages of %d bytes, %.0f MB on disk, memory limited to %d MB" % (n, size, disk / 1e6, limit_mb))
    compare(b, [("random page, cold", lambda: b.wrk(ours.url, 16, script=path, script_args=(int(n / 2),))),
                ("one page, hot", lambda: b.wrk(ours.url + "/bench.test/v1/page/html/T0_2", 16))], "reads from a store larger than memory")
    ours.end()
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        try:
            return os.rmdir(group)
        except OSError:
            time.sleep(0.1)  # the kernel still holds what the process had


def bench_import(b):
    repo = b.args.repo or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    ours = b.palimpsest("import")
    began = time.monotonic()
    out = subprocess.run([os.path.join(b.args.build, "palimpsest"), "import", "git", repo, "--server", ours.url, "--domain", "bench.test",
                          "--json"], text=True, capture_output=True)
    took = time.monotonic() - began
    puts = metric(ours.url, "palimpsest_pages_puts_total")
    print("import git: %.0f renders in %.2f s = %.0f/s (exit %d)\n" % (puts, took, puts / took, out.returncode), flush=True)


def bench_start(b):
    ours = b.palimpsest("start", "page.grace_ttl=never")
    n, took = load(b, ours, int(b.args.count or 1000000), 600)
    print("loaded %d pages in %.0f s (%.0f/s); RSS %.0f MB" % (n, took, n / took, ours.rss_mb()))
    for how in ("closed", "killed"):
        times = []
        for _ in range(5):
            if how == "killed":
                put_page(ours.url, "Last", int(time.time() * 1000), html(600, time.time()))
                ours.p.kill()
                ours.p.wait()
            else:
                ours.end()
            began = time.monotonic()
            ours = b.palimpsest("start", "page.grace_ttl=never")
            times.append((time.monotonic() - began) * 1000)
        print("start of a %s store: median %.0f ms, max %.0f ms; RSS %.0f MB" % (how, med(times), max(times), ours.rss_mb()))
    ours.end()
    times = []
    for i in range(5):
        began = time.monotonic()
        p = b.palimpsest("empty%d" % i)
        times.append((time.monotonic() - began) * 1000)
        p.end()
    print("start of an empty store: median %.0f ms, max %.0f ms\n" % (med(times), max(times)), flush=True)


def instructions(b, path, headers, count):
    out = os.path.join(b.dir, "callgrind.out")
    totals = []
    for n in (count, 2 * count):
        ours = b.palimpsest("cpu", "http.threads=1", prefix=["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out])
        put_page(ours.url, "Page", 1, html(20000, 2))
        put_page(ours.url, "Page", 2, html(20000, 1))
        warm(ours.url + path, ["%s: %s" % h for h in headers.items()])
        u = urllib.parse.urlparse(ours.url)
        c = http.client.HTTPConnection(u.hostname, u.port, timeout=DEADLINE_S)
        for _ in range(n):
            c.request("GET", path, headers=headers)
            c.getresponse().read()
        ours.end()
        totals.append(int(re.search(r"^(?:summary|totals): (\d+)", open(out).read(), re.M).group(1)))
        shutil.rmtree(os.path.join(b.dir, "cpu"))
    return (totals[1] - totals[0]) / count


def bench_cpu(b):
    base = "/bench.test/v1/page/html/Page"
    print("| GET 20 KB | instructions a request (callgrind, user space, whole process) |\n| --- | ---: |")
    for name, path, headers in (("latest, ready", base, {}), ("latest, ready, gzip", base, {"Accept-Encoding": "gzip"}),
                                ("latest, ready, with X-Request-Id", base, {"X-Request-Id": "a"}),
                                ("latest, built for the request", base, {"Cache-Control": "no-cache"}),
                                ("revision, recent", base + "/1", {}), ("304", base, {"If-None-Match": "*"})):
        print("| %s | %.0f |" % (name, instructions(b, path, headers, 2000)), flush=True)
    print()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", required=True)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--count", type=float, help="pages, supersessions or seconds, as the benchmark counts")
    p.add_argument("--limit-mb", default="512")
    p.add_argument("--repo")
    p.add_argument("--tmp", help="where data is put")
    p.add_argument("which", nargs="+")
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    for which in args.which:
        b = Bench(args)
        try:
            print("## %s\n" % which, flush=True)
            globals()["bench_" + which](b)
        finally:
            b.close()


if __name__ == "__main__":
    main()
