"""What the scenes of this folder share: one real wiki for all scenes of a file, and servers in front of it.

The wiki is made at its first use, in a temporary folder (or found in WIKI_DIR, where it stays), and ended with the
process. Each scene takes pages of its own.
"""
import atexit
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / 'test/scene'), str(ROOT / 'tools/wiki')]
sys.dont_write_bytecode = True
from harness import Server, wait_until   # noqa: E402  pylint: disable=wrong-import-position
from wiki import DOMAIN, Wiki, free_port   # noqa: E402  pylint: disable=wrong-import-position

PAGES = int(os.environ.get('WIKI_PAGES', '24'))
BASE = f'/{DOMAIN}/v1'
# The render's name stands in the head of what we serve, and in nothing that Parsoid gives.
TIME_UUID = re.compile(r'<meta property="mw:TimeUuid" content="[^"]*"/>')

_wiki = []


def the_wiki():
    """The one wiki of this process, running."""
    if not _wiki:
        kept = os.environ.get('WIKI_DIR')
        wiki = Wiki(kept or tempfile.mkdtemp(prefix='wiki-'))
        atexit.register(wiki.down if kept else wiki.remove)
        _wiki.append(wiki.up(PAGES))
    return _wiki[0]


class Wired:
    """A server in front of the wiki, with VisualEditor loading and saving through it, for one scene."""

    def __init__(self, binary, **more):
        self.wiki = the_wiki()
        self.port = free_port()
        folder = tempfile.mkdtemp(prefix='wired-', dir=self.wiki / 'tmp')
        self.config = pathlib.Path(folder) / 'server.yaml'
        self.config.write_text(self.wiki.config(**more))
        self.server = Server(binary, '--config', self.config, '--listen', f'127.0.0.1:{self.port}')
        self.wiki.wire(self.server.url)
        self._log_from = (self.wiki / 'log/access.log').stat().st_size

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.wiki.unwire()
        self.server.__exit__(kind, value, trace)

    @staticmethod
    def new_title(name):
        """A title no page has, in a wiki that is used again, too."""
        return f'{name} {time.time_ns()}'

    def asked(self, pattern, least=1):
        """What pattern finds in the requests that the wiki's own web server answered since this began: so many at least,
        which it writes down some time after it answered."""
        def found():
            with open(self.wiki / 'log/access.log', encoding='utf-8', errors='replace') as log:
                log.seek(self._log_from)
                got = re.findall(pattern, log.read())
            return got if len(got) >= least else None
        return wait_until(found, f'{least} of {pattern} in the log of the wiki')

    def get(self, path, headers=None):
        """A GET of a path below the domain's /v1."""
        return self.server.request('GET', BASE + path, headers)
