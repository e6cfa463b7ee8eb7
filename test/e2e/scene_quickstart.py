"""Goal: who has a MediaWiki and follows docs/quickstart/wiki.md and servers.md sees what these pages show.
Method: the commands of the pages are run in order by a shell (test/scene/walk_help.py) before a real wiki. Their settings go
into this wiki's; what a person does in the browser is done by the calls that the browser makes."""
import contextlib

from rig import ROOT, the_wiki
from harness import check, eq, free_port, main, scene
from list_help import Redis
from mediawiki import editor_is_wired
from walk_help import Walk, blocks
from wiki import ORIGIN_DOMAIN

QUICK = ROOT / 'docs/quickstart'
EDITOR = '5. Let VisualEditor load and save through the server'


class Settings:
    """Lines for LocalSettings.php, one block after the other; gone at the end."""

    def __init__(self, wiki):
        self.path, self.text = wiki / 'settings.d/quickstart.php', '<?php\n'

    def __call__(self, block):
        self.text += block
        self.path.write_text(self.text)

    def close(self):
        self.path.unlink(missing_ok=True)


def save_with_the_editor(wiki):
    """VisualEditor's load and save; the page does not say before what it says after."""
    loaded = wiki.api(action='visualeditor', paction='parse', page='Sandbox')['visualeditor']
    check('Hello, again' in loaded['content'], loaded['content'])
    done = wiki.api(action='visualeditoredit', paction='save', page='Sandbox', token='+\\', oldid=loaded['oldid'],
                    html=loaded['content'].replace('again', 'friends'), basetimestamp=loaded['basetimestamp'],
                    starttimestamp=loaded['starttimestamp'], etag=loaded['etag'])['visualeditoredit']
    eq(done['result'], 'success', done)


def swaps(wiki, *ports):
    """The wiki of the pages is this one."""
    return {'https://wiki.example.org': wiki.base, 'wiki.example.org': ORIGIN_DOMAIN, **{str(port): free_port() for port in ports}}


def sections_of(text, left_out=()):
    return [section for section in dict.fromkeys(section for section, _ in blocks(text)) if section not in left_out]


@scene
def a_wiki_is_served_and_tells_of_its_edits(binary):
    wiki, text = the_wiki(), (QUICK / 'wiki.md').read_text()
    check(EDITOR in sections_of(text), f'the section "{EDITOR}"')
    by_hand = {
        '# in the browser, make the page Sandbox with the text: Hello, world.': lambda: wiki.edit('Sandbox', 'Hello, world.'),
        '# in the browser, change the text to: Hello, again.': lambda: wiki.edit('Sandbox', 'Hello, again.'),
        '# in the browser, open Sandbox with VisualEditor, change again to friends, and save': lambda: save_with_the_editor(wiki),
    }
    left_out = () if editor_is_wired(wiki.version) else (EDITOR,)
    with contextlib.closing(Settings(wiki)) as settings, \
            Walk(binary, text, swaps(wiki, 7231, 7233), by_hand, {'LocalSettings.php': settings}) as walk:
        check(walk.go(*sections_of(text, left_out)) >= 9, 'commands')


@scene
def two_servers_share_a_redis(binary):
    wiki, text, redis = the_wiki(), (QUICK / 'servers.md').read_text(), Redis()
    try:
        swap = {**swaps(wiki, 7241, 7242, 8080), '6379': redis.port}
        with Walk(binary, text.partition('\n## One store on Cassandra')[0], swap) as walk:
            check(walk.go() >= 8, 'commands')
    finally:
        redis.end()


main()
