"""procs.py - the servers that benchmarks start: any that says its address, and nginx, which serves one page from a file."""
import gzip
import os
import signal
import socket
import subprocess
import time

DEADLINE_S = 60


class Proc:
    def __init__(self, argv, url_line=None, **kw):
        with open(kw.pop('stderr', os.devnull), 'ab') as stderr:
            self.p = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=stderr, text=True, **kw)  # pylint: disable=consider-using-with
        self.url = None
        if url_line:
            line = self.p.stdout.readline().strip()
            if not line.startswith(url_line):
                raise SystemExit(f'{argv[0]}: no address, but {line!r}')
            self.url = line[len(url_line):].strip()

    def rss_bytes(self):
        with open(f'/proc/{self.p.pid}/status', encoding='ascii') as status:
            return next((int(line.split()[1]) << 10 for line in status if line.startswith('VmRSS')), 0)

    def rss_mb(self):
        return self.rss_bytes() / (1 << 20)

    def cpu_s(self):
        """Of processor time, with that of its children."""
        with open(f'/proc/{self.p.pid}/task/{self.p.pid}/children', encoding='ascii') as children:
            pids = [self.p.pid, *map(int, children.read().split())]
        ticks = 0
        for pid in pids:
            with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
                fields = stat.read().rsplit(')', 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf('SC_CLK_TCK')

    def end(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
            try:
                self.p.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()
        return self.p.returncode


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


NGINX_CONF = '''worker_processes 2; daemon off; master_process on; pid {0}/nginx.pid; error_log {0}/nginx.err;
events {{ worker_connections 4096; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; open_file_cache max=100;
types {{ text/html html; }} gzip_static on; client_body_temp_path {0}; proxy_temp_path {0}; fastcgi_temp_path {0};
uwsgi_temp_path {0}; scgi_temp_path {0}; server {{ listen 127.0.0.1:{1}; root {0}/www; }} }}
'''


class Nginx(Proc):
    """Serves body as /page.html, and compressed to who wants that. Its files are in folder, which the caller removes."""

    def __init__(self, folder, body):
        os.makedirs(f'{folder}/www', exist_ok=True)
        with open(f'{folder}/www/page.html', 'wb') as page:
            page.write(body)
        with open(f'{folder}/www/page.html.gz', 'wb') as page:
            page.write(gzip.compress(body, 6))
        port = free_port()
        with open(f'{folder}/nginx.conf', 'w', encoding='ascii') as conf:
            conf.write(NGINX_CONF.format(folder, port))
        for path in (folder, f'{folder}/www'):      # its workers are another user's
            os.chmod(path, 0o755)
        super().__init__(['nginx', '-c', f'{folder}/nginx.conf'])
        self.url = f'http://127.0.0.1:{port}'
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            try:
                with socket.create_connection(('127.0.0.1', port), 1):
                    return
            except OSError:
                time.sleep(0.01)
        raise SystemExit('nginx did not start')
