"""What the scenes of options share that change under a server."""
import pathlib
import signal
import tempfile

from harness import Server, wait_until


class Reloaded:
    """A server with a file: reload() writes the file anew and waits for the end of that SIGHUP."""

    def __init__(self, binary, text, *args, **more):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / 'p.yaml'
        self.file.write_text(text)
        self.server = Server(binary, '--config', self.file, *args, **more)

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, kind, value, trace):
        self.server.__exit__(kind, value, trace)
        self.folder.cleanup()

    def write(self, text):
        """In its place at once: a server that reads meanwhile sees one file or the other."""
        anew = self.file.with_suffix('.new')
        anew.write_text(text)
        anew.replace(self.file)

    def begin(self, text):
        self.write(text)
        self.server.signal(signal.SIGHUP)

    def lines(self):
        return [line for line in self.server.stderr().splitlines() if ' reload.' in line]

    def reload(self, text, ends='reload.done', count=1):
        """What the log said of it: lines from `reload.` on."""
        before = len(self.lines())
        self.begin(text)
        wait_until(lambda: sum(ends in line for line in self.lines()[before:]) >= count, ends)
        return [line[line.index('reload.'):] for line in self.lines()[before:]]
