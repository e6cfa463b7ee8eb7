"""What scenes of the command-line client share: one call of the binary as a client of a server."""
import json
import os
import pathlib
import subprocess
import tempfile

CALL_TIMEOUT = 120


class Client:
    """Calls the binary with a server and a state folder of its own.

    client('ls', 'a') gives a CompletedProcess with bytes; client.ok(...) fails unless the exit code is 0 and gives
    stdout as text; client.json(...) parses the lines that --json prints.
    """

    def __init__(self, binary, server, folder=None):
        self.binary = str(pathlib.Path(binary).resolve())
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix='client-', dir=server.folder))
        self.env = {**os.environ, 'PALIMPSEST_SERVER': server.url, 'XDG_STATE_HOME': str(self.folder / 'state'),
                    'HOME': str(self.folder), 'GIT_CONFIG_NOSYSTEM': '1'}
        self.env.pop('PALIMPSEST_TOKEN', None)

    def __call__(self, *args, stdin=b''):
        return subprocess.run([self.binary, *args], input=stdin, capture_output=True, timeout=CALL_TIMEOUT, check=False,
                              env=self.env, cwd=self.folder)

    def ok(self, *args, stdin=b''):
        done = self(*args, stdin=stdin)
        if done.returncode != 0:
            raise AssertionError(f'{args}: exit {done.returncode}: {done.stderr.decode(errors="replace")}')
        return done.stdout.decode()

    def json(self, *args, stdin=b''):
        return [json.loads(line) for line in self.ok(*args, '--json', stdin=stdin).splitlines()]
