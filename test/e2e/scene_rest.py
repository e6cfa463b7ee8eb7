"""Goal: a wiki that is asked by its own REST routes (origin.kind: rest) is asked for a page once for each change of it,
though it answers out of its parser cache, and touches a page that is purged. Method: a real MediaWiki, a server in front of
it whose trust is over after a second, readers all the while; what the wiki is asked is counted by the server's own figures."""
import contextlib
import json
import pathlib
import re
import tempfile
import threading
import time

from rig import BASE, DOMAIN, ORIGIN_DOMAIN, SETTLE, SOON, TRUST_MAX, TRUST_TTL, another_second, quote, scene, the_wiki
from harness import Server, check, eq, main, wait_until

ROUNDS = 10             # of trust
SLOW = """return { text = function()
    local ends = os.clock() + 3
    while os.clock() < ends do end
    return 'slow'
end }"""


class Core:
    """A server of kind rest; its figures since the last mark."""

    def __init__(self, binary):
        self.wiki = the_wiki()
        folder = pathlib.Path(tempfile.mkdtemp(prefix='rest-', dir=self.wiki / 'tmp'))
        origin = {'kind': 'rest', 'url': f'{self.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN, 'trust_ttl': f'{TRUST_TTL}s',
                  'trust_max': f'{TRUST_MAX}s', 'check_wait': '30s'}
        (folder / 'server.yaml').write_text(json.dumps({'domains': {DOMAIN: {'origin': origin}}}))
        self.server = Server(binary, '--config', folder / 'server.yaml')
        self.marks = {}

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.server.__exit__(kind, value, trace)

    def read(self, title, headers=None):
        answer = self.server.request('GET', f'{BASE}/page/html/{quote(title)}', headers)
        eq(answer.status, 200, answer.body[:200])
        return answer.body

    def count(self, kind):
        """Calls of this kind that were fine; none has no figure."""
        text = self.server.request('GET', '/metrics').body.decode()
        found = re.search(rf'^palimpsest_origin_requests_total\{{kind="{kind}",outcome="fine"[^}}]*\}} (\S+)$', text, re.M)
        return int(float(found[1])) if found else 0

    def mark(self):
        self.marks = {kind: self.count(kind) for kind in ('render', 'purge', 'word')}

    def since(self, kind):
        return self.count(kind) - self.marks[kind]

    def read_on(self, titles):
        """Readers, until the wiki was asked so often whether that is still so."""
        words = self.count('word')

        def is_over():
            for title in titles:
                self.read(title)
            return self.count('word') >= words + ROUNDS
        wait_until(is_over, f'{ROUNDS} words', pause=0.1)


@contextlib.contextmanager
def pages(core, name, count=4):
    """(template, titles that use it, one that does not): at rest."""
    run = time.time_ns()
    template, titles = f'Template:{name}_{run}', [f'{name}_{run}_{n}' for n in range(count)]
    core.wiki.edit(template, 'first template')
    for title in titles:
        core.wiki.edit(title, '{{%s_%d}}' % (name, run))
    core.wiki.edit(f'{name}_{run}', 'uses nothing')
    touched = time.time()
    wait_until(lambda: time.time() > touched + SETTLE + 1, 'the wiki has come to rest')
    yield template, titles, f'{name}_{run}'


@scene
def what_did_not_change_is_made_once_and_what_did_once_more(binary):
    with Core(binary) as core, pages(core, 'Once') as (template, titles, alone):
        core.mark()
        core.read_on([*titles, alone])
        eq((core.since('render'), core.since('purge')), (len(titles) + 1, 0))
        another_second()
        core.wiki.edit(template, 'second template')
        for title in titles:
            wait_until(lambda title=title: b'second template' in core.read(title), f'{title} is made anew', timeout=SOON)
        core.read_on([*titles, alone])
        print(f'{core.since("render") - len(titles) - 1} renders of {len(titles)} pages', flush=True)
        # what was made within 3 s of the touch is made once more
        check(core.since('render') <= 3 * len(titles) + 1, f'{core.since("render")} renders')
        eq(core.since('purge'), 0)


@scene
def who_asks_with_no_cache_has_it_made_and_settled(binary):
    with Core(binary) as core, pages(core, 'Nocache', 1) as (_, titles, alone):
        core.read_on([*titles, alone])
        core.mark()
        core.read(alone, {'Cache-Control': 'no-cache'})
        core.read_on([*titles, alone])
        eq(core.since('purge'), 1)
        check(core.since('render') <= 2, f'{core.since("render")} renders')


@scene
def what_was_begun_before_a_template_changed_is_not_taken_for_new(binary):
    """MediaWiki keeps it as made when its making ended, which is after the touch, and goes on giving it."""
    if not the_wiki().mediawiki.has_extension('Scribunto'):
        return
    with Core(binary) as core, pages(core, 'Astride', 1) as (template, _, slow):
        module = f'Slow_{time.time_ns()}'
        core.wiki.edit(f'Module:{module}', SLOW)
        core.wiki.edit(slow, '{{%s}} {{#invoke:%s|text}}' % (template.partition(':')[2], module))
        touched = time.time()
        wait_until(lambda: time.time() > touched + SETTLE + 1, 'the wiki has come to rest')
        core.mark()
        bodies = []
        reader = threading.Thread(target=lambda: bodies.append(core.read(slow)))
        reader.start()
        wait_until(lambda: core.count('meta') > 0, 'its word is said')
        began = time.time()
        wait_until(lambda: time.time() > began + 1, 'the wiki is at it')
        core.wiki.edit(template, 'second template')
        reader.join(60)
        print(f'made {"across" if b"first template" in bodies[0] else "behind"} the change', flush=True)
        wait_until(lambda: b'second template' in core.read(slow), 'it is made anew', timeout=SOON)
        core.read_on([slow])
        check(b'second template' in core.read(slow), 'and stays')
        check(core.since('purge') <= 1 and core.since('render') <= 3, f'{core.since("purge")}, {core.since("render")}')


if __name__ == '__main__':
    main()
