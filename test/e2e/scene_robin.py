"""Goal: people edit a wiki with VisualEditor whichever server the balancer gives them, request by request: no save fails,
and only what they typed changes. Method: Chromium, a real MediaWiki, haproxy by turns without stickiness, two servers
that know each other. The balancer's log says which server answered what; scenes choose whose turn is next. With
SCENE_CASSANDRA there are four servers that share a store, know nothing of each other, and with ROBIN_REDIS=none share no
Redis either."""
import collections
import os
import re
import time

from rig import TRUST_MAX, Pair, Wired, another_second, private_wiki
from editor import TEXT, the_editor
from harness import check, eq, main, scene, wait_until
from haproxy_help import Haproxy
import shared_store
from wiki import quote

LOG = '  log stdout format raw daemon\n  log-format "%s %HM %HU %ST"\n'
LINE = re.compile(r'^s(\d) (\S+) /localhost/v1/(\S+) (\d+)$', re.M)
SHARED = shared_store.place() is not None
COUNT = 4 if SHARED else 2
REDIS = not SHARED or os.environ.get('ROBIN_REDIS') != 'none'
Request = collections.namedtuple('Request', 'server method target status')


class Robin(Pair):
    """haproxy as docs/several-servers.md has it before the servers, with VisualEditor loading and saving through it."""

    def __init__(self, binary, sticky=False, forward=False, **origin):
        super().__init__(binary, knowing=not SHARED, count=COUNT, redis=REDIS, **origin)
        self.balancer = Haproxy([server.port for server in self.servers], sticky, more=LOG)
        for n in range(COUNT):
            self.balancer.wait_server(n, True)
            wait_until(lambda n=n: not REDIS or self.metric(n, 'redis_up') == 1, 'the servers have Redis')
        self.wiki.wire(f'http://127.0.0.1:{self.balancer.port}', forward=forward)
        self.editor = the_editor(self.wiki)

    def __exit__(self, kind, value, trace):
        self.wiki.unwire()
        self.balancer.close()
        super().__exit__(kind, value, trace)

    def metric(self, n, name):
        """0 when there is none, as those of peers of a server that is told of no other."""
        text = self.servers[n].request('GET', '/metrics').body.decode()
        found = re.search(rf'^palimpsest_{name} (\S+)$', text, re.M)
        return int(float(found[1])) if found else 0

    def requests(self, pattern, least=0):
        """Those of all so far whose method and target pattern finds: as many at least, which are written down some time after
        they were answered."""
        def found():
            lines = LINE.findall((self.balancer.folder / 'log').read_text())
            got = [Request(int(server), method, target, int(status)) for server, method, target, status in lines
                   if re.search(pattern, f'{method} {target}')]
            return got if len(got) >= least else None
        return wait_until(found, f'{least} of {pattern} in the log of the balancer') if least else found() or []

    def turn(self, n):
        """The next request goes to server n."""
        pattern = f'probe-{time.time_ns()}$'
        for count in range(1, COUNT + 2):
            self.wiki.request('GET', f'/api/rest_v1/page/{pattern[:-1]}')
            if (self.requests(pattern, count)[-1].server + 1) % COUNT == n:
                return
        check(False, f'it is never the turn of server {n}')

    def all_fine(self, title):
        """No request about title failed."""
        of_title = self.requests(f'{re.escape(quote(title))}\\b')
        check(of_title and all(one.status in (200, 304) for one in of_title), of_title)
        return of_title

    def at_rest(self):
        """What was read until now is asked for again by all who read."""
        began = time.monotonic()
        wait_until(lambda: time.monotonic() > began + TRUST_MAX, 'what was asked before counts no more')


def new(robin, name, text=TEXT % 'Note|x'):
    title = Wired.new_title(name).replace(' ', '_')
    robin.wiki.edit(title, text, 'made')      # the wiki's own summary would show the text
    return title


@scene
def each_request_of_an_edit_meets_another_server(binary):
    with Robin(binary) as robin:
        editor, wiki = robin.editor, robin.wiki
        for first in range(COUNT):
            title, turns = new(robin, 'Split'), [(first + n) % COUNT for n in range(4)]
            before = [robin.metric(n, 'peers_found_total') for n in turns[:2]]
            robin.turn(turns[0])
            editor.open(title)
            editor.type_behind('The last', ' visual')
            robin.turn(turns[1])
            editor.switch('source')
            check("Before  the   table. \n" in editor.text() and '|odd||  spacing' in editor.text(), editor.text())
            editor.type_behind('The last visual', ' source')
            robin.turn(turns[2])
            editor.switch('visual')
            check(editor.etag().endswith('/stash"'), editor.etag())
            editor.type_behind('The last visual source', ' again')
            robin.turn(turns[3])
            editor.save()
            eq(wiki.source(title), (TEXT % 'Note|x').replace('The last', 'The last visual source again').strip())
            asked = [(one.server, one.target.split('/')[0:4]) for one in robin.all_fine(title)]
            eq(asked[:4], list(zip(turns, [
                ['page', 'html', f'{title}?redirect=false&stash=true'], ['transform', 'html', 'to', 'wikitext'],
                ['transform', 'wikitext', 'to', 'html'], ['transform', 'html', 'to', 'wikitext']])))
            # A busy wiki forgets at times what it was given when the dialog opened, and asks once more.
            check(all(target == asked[3][1] for _, target in asked[4:]), asked)
            eq([robin.metric(n, 'peers_found_total') - found for n, found in zip(turns, before)], [0, 0 if SHARED else 2])


@scene
def a_page_is_edited_again_and_again_by_turns(binary):
    """Nobody chooses the server here."""
    with Robin(binary) as robin:
        editor, title, words = robin.editor, new(robin, 'Turns'), ''
        same = set()
        for n in range(6):
            seen = len(robin.requests(title))
            editor.open(title)
            check(f'The last{words} paragraph' in editor.text(), f'the newest text: {editor.text()}')
            editor.type_behind(f'The last{words}', f' word{n}')
            words += f' word{n}'
            editor.open_save_dialog()
            if n % 2 == 0:
                eq(editor.review_visually(), [[], [f'word{n}']])
                editor.back_from_review()
            editor.press_save()
            editor.wait_saved()
            eq(robin.wiki.source(title), (TEXT % 'Note|x').replace('The last', f'The last{words}').strip())
            edit = robin.all_fine(title)[seen:]
            same.add(edit[0].server == edit[-1].server)
            check('stash=true' in edit[0].target and edit[-1].target.startswith('transform/html/to/wikitext'), edit)
        check(False in same, 'no save met another server than its load')
        check(all(robin.metric(n, 'peers_asked_total') == robin.metric(n, 'peers_found_total') for n in range(COUNT)), 'all was found')


@scene
def changes_beside_are_merged_and_conflicts_are_told(binary):
    with Robin(binary) as robin:
        editor, wiki = robin.editor, robin.wiki
        for first in (0, 1):
            title = new(robin, 'Fought')
            robin.turn(first)
            editor.open(title)
            editor.type_behind('The last', ' own')
            wiki.edit_later(title, (TEXT % 'Note|x').replace('Before', 'Long before'))
            robin.turn(1 - first)
            editor.save()
            eq(wiki.source(title), (TEXT % 'Note|x').replace('Before', 'Long before').replace('The last', 'The last own').strip())
            robin.turn(first)
            editor.open(title)
            check('Long before' in editor.text() and 'The last own' in editor.text(), editor.text())
            editor.type_behind('The last own', ' again')
            theirs = wiki.source(title).replace('The last own', 'The last foreign')
            wiki.edit_later(title, theirs)
            robin.turn(1 - first)
            editor.open_save_dialog()
            editor.press_save()
            editor.wait_conflict()
            eq(wiki.source(title), theirs)
            robin.all_fine(title)


@scene
def a_deleted_page_is_made_anew(binary):
    with Robin(binary) as robin:
        editor, wiki = robin.editor, robin.wiki
        for first in (0, 1):
            title = new(robin, 'Gone')
            eq([answer.status for answer in robin.read(title)], [200] * COUNT)
            robin.at_rest()
            robin.do(action='delete', title=title)
            robin.turn(first)
            editor.open(title)
            eq(editor.text().strip(), '')
            editor.type_into_empty('Some words of another life.')
            robin.turn(1 - first)
            editor.save()
            eq(wiki.source(title), 'Some words of another life.')
            for n in range(COUNT):
                robin.turn(n)
                editor.open(title)
                check('Some words of another life.' in editor.text(), editor.text())
            editor.type_behind('another', ' typed')
            robin.turn(0)
            editor.save()
            eq(wiki.source(title), 'Some words of another typed life.')
            eq({one.status for one in robin.requests(title)} - {304}, {200, 404})


@scene
def who_edits_sees_the_new_template_at_once(binary):
    with Robin(binary) as robin:
        editor, wiki = robin.editor, robin.wiki
        template = f'Robin_{time.time_ns()}'
        wiki.edit(f'Template:{template}', 'the 1st text')
        title = new(robin, 'Templated', TEXT % template)
        for n, (first, text) in enumerate(((0, 'the 2nd text'), (1, 'the 3rd text'))):
            for answer in robin.read(title):
                check(f'the {("1st", "2nd")[n]} text'.encode() in answer.body, answer.body)
            robin.at_rest()
            wiki.edit(f'Template:{template}', text)
            rev = wiki.revision(title)
            wait_until(lambda text=text, rev=rev: text in wiki.parsoid(title, rev)['html']['body'], 'the wiki has it itself')
            robin.turn(first)
            editor.open(title)
            check(text in robin.editor.browser.js("return document.querySelector( '.ve-ce-attachedRootNode' ).innerText;"), text)
            editor.type_behind('The last', f' {n}')
            robin.turn(1 - first)
            editor.save()
        eq(wiki.source(title), (TEXT % template).replace('The last', 'The last 1 0').strip())


@scene
def a_hidden_text_is_in_no_comparison(binary):
    with Robin(binary) as robin:
        editor = robin.editor
        for how in ({}, {'suppress': 'yes'}):
            title = new(robin, 'Hidden', 'Some secret words stand here.')
            old, now = robin.wiki.revision(title), robin.wiki.edit(title, 'Some words stand here.')
            eq(editor.compare(title, old, now), [['secret'], []])
            for server in robin.servers:
                eq(robin.get(server, 'html', title, rev=old).status, 200)
            another_second()    # else the wiki tells the browser that its page with the text is not modified
            robin.do(action='revisiondelete', type='revision', ids=old, hide='content', **how)
            robin.at_rest()
            before = len(robin.requests(f'{title}/{old}'))
            editor.open_comparison(title, old, now)
            by_page, = robin.requests(f'{title}/{old}', before + 1)[before:]
            eq(by_page.status, 410, 'what the page asked for by itself')
            told = editor.browser.until("""const shown = document.body.innerText;
                return shown.includes( 'Invalid response' ) && shown;""", 'the comparison is refused')
            check('secret' not in told, told)
            for n in range(COUNT):
                robin.turn(n)
                status, text = editor.browser.js("""return fetch( `/api/rest_v1/page/html/${ arguments[ 0 ] }` )
                    .then( r => r.text().then( t => [ r.status, t ] ) );""", f'{title}/{old}?redirect=false&stash=true')
                check(status == 410 and 'secret' not in text, f'{status} {text}')


@scene
def editors_of_a_private_wiki_stay_with_one_server(binary):
    """With the lines of docs/several-servers.md that send editors to the first: contents of such a wiki go to no other."""
    with private_wiki() as authorization, Robin(binary, sticky=True, forward=True, private=True,
                                                authorization_file=str(authorization)) as robin:
        editor, wiki = robin.editor, robin.wiki
        title = Wired.new_title('Private').replace(' ', '_')
        robin.do(action='edit', title=title, text=TEXT % 'Note|x')
        eq([answer.status for answer in robin.read(title)], [403] * COUNT)
        editor.log_in()
        try:
            for n in range(3):
                words = ''.join(f' {i}' for i in range(n))
                editor.open(title)
                editor.type_behind(f'The last{words}', f' {n}')
                editor.switch('source')
                editor.switch('visual')
                editor.save()
            eq(robin.do(action='parse', page=title, prop='wikitext')['parse']['wikitext'],
               (TEXT % 'Note|x').replace('The last', 'The last 0 1 2').strip())
        finally:
            editor.browser.forget()
        eq({(one.server, one.status) for one in robin.requests(f'stash=true|{title}/|transform')}, {(0, 200)})
        eq([robin.balancer.stats()[f's{n}']['stot'] for n in range(1, COUNT)], ['0'] * (COUNT - 1))


main()
