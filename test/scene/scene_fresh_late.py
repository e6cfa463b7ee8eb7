"""Goal: reads, makings and transforms keep to the wiki's last word when it comes between them, and ask no more than they
must. Method: a server in front of a scripted origin that holds answers back while others are heard; its calls are counted
and the server's clock is moved."""
import json

from harness import Server, check, eq, main, scene, wait_until
from origin import Origin, instant, status_of
from page_help import get, history, later, path, problem
from render_help import JSON, NO_CACHE, Crowd, Held, cache_of, metric, name_of, origin_server

TTL = '61s'      # more than trust_ttl
ONLY = {'Cache-Control': 'only-if-cached'}
READERS = 100


def refused(server, status, kind, *where, content='html', query='', headers=None):
    problem(server.request('GET', path(content, *where) + query, headers), status, kind)


def running_server(binary, origin):
    """Its clock runs, so that what is asked later is later."""
    return Server(binary, *origin.options('localhost'))


@scene
def a_render_that_is_late_brings_nothing_back(binary):
    """Of the latest and of a revision: the page was deleted, or the revision hidden, while the wiki made it."""
    for rev, change in ((None, 'delete'), (1, 'delete'), (1, 'hide')):
        with Origin() as origin:
            origin.page('A', (1, 'secret'), *([] if rev is None else [(2, 'clean')]))
            with running_server(binary, origin) as server:
                held = Held(server, origin, 'render', 'GET', path('html', 'A', rev))
                if change == 'delete':
                    origin.delete('A')
                    refused(server, 404, 'not_found', 'A', content='title')
                else:
                    origin.hide('A', 1)
                    refused(server, 403, 'access_denied#revision', 'A', 1, content='title')
                late = held.go()
                problem(late, *((404, 'not_found') if change == 'delete' else (410, 'suppressed')))
                eq(server.request('GET', path('history', 'A')).status, 404, 'nothing was stored')
                where = ('A',) if rev is None else ('A', rev)
                refused(server, *((404, 'not_found') if change == 'delete' else (410, 'suppressed')), *where)


@scene
def who_edits_gets_nothing_whose_making_began_long_before(binary):
    """Others had asked for it, and the page was edited since: that word is older than an editor's may be."""
    with Origin() as origin:
        origin.page('A', (1, 'first'))
        with Server(binary, *origin.options('localhost'), test_hooks=True) as server:
            held = Held(server, origin, 'render', 'GET', path('html', 'A'))
            origin.page('A', (1, 'first'), (2, 'second'))
            server.clock(advance='3s')
            editor = Crowd(server, [(path('html', 'A') + '?stash=true', {})])
            wait_until(lambda: metric(server, 'flight_waiters') == 2, 'both wait')
            first = held.go()
            eq(name_of(first)[0], 1)
            check(int(first.headers['Age']) >= 3, 'the wiki was asked before it began')
            eq(name_of(editor.wait()[0])[0], 2)


@scene
def a_late_render_of_a_stored_page_is_as_hidden_as_the_others(binary):
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'clean'))
        with running_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A', 1))
            held = Held(server, origin, 'render', 'GET', path('html', 'A', 1), NO_CACHE)
            origin.hide('A', 1)
            refused(server, 403, 'access_denied#revision', 'A', 1, content='wikitext')
            problem(held.go(), 410, 'suppressed')
            refused(server, 410, 'suppressed', 'A', rev, tid)
            refused(server, 410, 'suppressed', 'A', rev, tid, content='data-parsoid')
            eq({r['state'] for r in history(server, 'A')['items']}, {'suppressed'})


@scene
def a_late_render_of_a_page_made_anew_is_not_its(binary):
    """The title is another page's when the render of the first one comes."""
    for stored in (False, True):
        with Origin() as origin:
            origin.page('A', (1, 'libel'))
            with running_server(binary, origin) as server:
                if stored:
                    get(server, 'A')
                held = Held(server, origin, 'render', 'GET', path('html', 'A'), NO_CACHE)
                origin.page('A', (9, 'clean'))
                origin.ids['A'] = 4711
                eq(get(server, 'A', content='title').status, 200)
                late = held.go()
                check(b'libel' not in late.body, late.body)
                check(b'>clean<' in get(server, 'A').body, 'and from then on')
                refused(server, 404, 'not_found', 'A', 1)


@scene
def a_render_whose_text_went_meanwhile_is_no_failure(binary):
    """The wiki says 404 to who asks for it, and somebody else was told why."""
    with Origin() as origin:
        origin.page('A', (1, 'secret'))
        with running_server(binary, origin) as server:
            held = Held(server, origin, 'render', 'GET', path('html', 'A'), written=False)
            origin.delete('A')
            refused(server, 404, 'not_found', 'A', content='title')
            problem(held.go(), 404, 'not_found')


@scene
def wikitext_that_is_late_is_not_given(binary):
    for kind in ('wikitext', 'lint'):
        with Origin() as origin:
            origin.page('A', (1, 'secret'), (2, 'clean'))
            with running_server(binary, origin) as server:
                held = Held(server, origin, kind, 'GET', path(kind, 'A', 1))
                origin.hide('A', 1)
                refused(server, 403, 'access_denied#revision', 'A', 1, content='title')
                problem(held.go(), 403, 'access_denied#revision')


def transform(server, source, to, rev, fields, tag=None):
    headers = {**JSON, **({'If-Match': tag} if tag else {})}
    return server.request('POST', f'/localhost/v1/transform/{source}/to/{to}/A/{rev}', headers, json.dumps(fields).encode())


@scene
def a_transform_that_is_late_gives_and_keeps_nothing(binary):
    """What it was made of was hidden, or its page deleted, while the wiki worked on it."""
    html = '<html><body><p id="mwAg">typed</p></body></html>'
    for source, to, fields in (('html', 'wikitext', {'html': html}),
                               ('html', 'html', {'html': html, 'updates': {'redlinks': True}}),
                               ('wikitext', 'html', {'wikitext': 'typed', 'stash': True})):
        for change in ('hide', 'delete'):
            with Origin() as origin:
                origin.page('A', (1, 'secret'), (2, 'clean'))
                with running_server(binary, origin) as server:
                    tag = get(server, 'A', 1).headers['ETag']
                    body = json.dumps(fields).encode()
                    held = Held(server, origin, 'transform', 'POST', f'/localhost/v1/transform/{source}/to/{to}/A/1',
                                {**JSON, 'If-Match': tag}, body)
                    getattr(origin, change)(*(('A', 1) if change == 'hide' else ('A',)))
                    refused(server, *((403, 'access_denied#revision') if change == 'hide' else (404, 'not_found')), 'A', 1,
                            content='title')
                    problem(held.go(), *((409, 'restricted') if change == 'hide' else (410, 'deleted')))
                    eq(server.json('GET', '/v1/admin.stash/localhost').body['items'], [])


@scene
def a_transform_asks_first_unless_the_word_is_new(binary):
    """A word of two seconds ago will do; a wiki that is away leaves what is stored."""
    html = {'html': '<html><body><p id="mwAg">typed</p></body></html>'}
    with Origin() as origin:
        origin.page('A', (1, 'old'), (2, 'new'))
        with origin_server(binary, origin) as server:
            tag = get(server, 'A', 1).headers['ETag']
            asked = origin.count('revisions')
            eq(transform(server, 'html', 'wikitext', 1, html, tag).status, 200)
            eq(origin.count('revisions'), asked, 'the render was the word')
            server.clock(advance='3s')
            eq(transform(server, 'html', 'wikitext', 1, html, tag).status, 200)
            eq(origin.count('revisions'), asked + 1)
            eq(transform(server, 'html', 'wikitext', 1, html, tag).status, 200)
            eq(origin.count('revisions'), asked + 1)
            server.clock(advance='3s')
            origin.hide('A', 1)
            transforms = origin.count('transform')
            problem(transform(server, 'html', 'wikitext', 1, html, tag), 409, 'restricted')
            eq(origin.count('transform'), transforms, 'the text did not go to the wiki')
        origin.page('A', (1, 'old'), (2, 'new'))
        with origin_server(binary, origin) as server:
            tag = get(server, 'A', 1).headers['ETag']
            server.clock(advance='10m')
            origin.fault('revisions', status_of(503))
            eq(transform(server, 'html', 'wikitext', 1, html, tag).status, 200)


@scene
def a_stash_is_asked_about_first(binary):
    with Origin() as origin:
        origin.page('A', (1, 'old'), (2, 'new'))
        with origin_server(binary, origin) as server:
            kept = transform(server, 'wikitext', 'html', 1, {'wikitext': 'typed', 'stash': True})
            eq(kept.status, 200, kept.body)
            tag = kept.headers['ETag']
            asked = origin.count('revisions')
            server.clock(advance='3s')
            saved = transform(server, 'html', 'wikitext', 1, {'html': kept.body.decode()}, tag)
            eq((saved.status, saved.body), (200, b'typed'))
            eq(origin.count('revisions'), asked + 1)
            origin.hide('A', 1)
            server.clock(advance='3s')
            problem(transform(server, 'html', 'wikitext', 1, {'html': kept.body.decode()}, tag), 409, 'restricted')


@scene
def a_missing_page_is_asked_for_once_in_trust_ttl(binary):
    with Origin() as origin:
        with origin_server(binary, origin) as server:
            refused(server, 404, 'not_found', 'A')
            asked = sum(origin.calls.values())
            for _ in range(5):
                refused(server, 404, 'not_found', 'A')
            eq(sum(origin.calls.values()), asked)
            origin.page('A', (1, 'made'))
            later(server)
            check(b'>made<' in get(server, 'A', 1).body, 'who names a revision may know of it')
            server.clock(advance=TTL)
            check(b'>made<' in get(server, 'A').body, 'and all others see it then')
            origin.delete('A')
            server.clock(advance='6m')
            words, metas = origin.count('words'), origin.count('meta')
            refused(server, 404, 'not_found', 'A')
            eq((origin.count('words'), origin.count('meta')), (words + 1, metas), 'one question, and the answer at once')
            for _ in range(5):
                refused(server, 404, 'not_found', 'A')
            eq((origin.count('words'), origin.count('meta')), (words + 1, metas))
            origin.page('A', (2, 'again'))
            refused(server, 404, 'not_found', 'A')
            later(server)
            check(b'>again<' in get(server, 'A', headers=NO_CACHE).body, 'who wants it anew is not told what was')
            origin.delete('A')
            server.clock(advance='6m')
            refused(server, 404, 'not_found', 'A')
            origin.page('A', (3, 'third'))
            server.clock(advance=TTL)
            check(b'>third<' in get(server, 'A').body, 'within trust_ttl')


@scene
def many_readers_of_a_dated_render_make_one(binary):
    with Origin() as origin:
        origin.page('A', (1, 'text'))
        origin.touched['A'] = '2026-01-01T00:00:00Z'
        with origin_server(binary, origin) as server:
            get(server, 'A')
            origin.touched['A'] = '2026-02-01T00:00:00Z'
            origin.stamp = ' anew'
            server.clock(advance='6m')
            words, renders = origin.count('words'), origin.count('render')
            with origin.gate('render') as gate:
                crowd = Crowd(server, [(path('html', 'A'), {})] * READERS)
                wait_until(lambda: gate.waiting > 0, 'it is made')
            for answer in crowd.wait():
                eq(answer.status, 200)
                check(b'text anew' in answer.body, answer.body)
            eq(origin.count('render'), renders + 1)
            check(origin.count('words') - words <= 2, 'who came too late for the first question asked a second one')
            eq(cache_of(get(server, 'A')), 'hit')


@scene
def a_render_made_right_after_a_touch_is_made_once_more(binary):
    """Also where its answer is ready. What its own edit touched is settled."""
    for own in (False, True):
        with Origin() as origin:
            origin.page('A', (1, 'soon'))
            with origin_server(binary, origin) as server:
                origin.touched['A'] = instant()     # a start may take longer than a touch takes to settle
                if own:
                    origin.edited['A'] = origin.touched['A']
                for _ in range(4):
                    check(b'>soon<' in get(server, 'A').body, 'made, stored, ready')
                origin.page('A', (1, 'settled'))
                server.clock(advance='5s')
                origin.ahead = 5
                eq(cache_of(get(server, 'A')), 'hit')
                if own:
                    eq(origin.count('render'), 1)
                    continue
                wait_until(lambda: b'>settled<' in get(server, 'A').body, 'made once more')
                for _ in range(4):
                    get(server, 'A')
                eq(origin.count('render'), 2)


@scene
def an_imported_history_rests_once(binary):
    """Its revisions have greater numbers than the newest one, which stays the latest."""
    with Origin() as origin:
        origin.page('A', (100, 'imported'), (5, 'now'))
        with origin_server(binary, origin, '--set', 'domains.localhost.origin.check_wait=100ms') as server:
            now, imported = name_of(get(server, 'A')), name_of(get(server, 'A', 100))
            for _ in range(3):
                eq(name_of(get(server, 'A')), now)
            eq(origin.count('render'), 2)
            server.clock(advance='6m')
            eq(name_of(get(server, 'A')), now)       # unchecked: the wiki may have answered from an old copy
            def is_believed():
                server.clock(advance='31s')     # the longest of its rests
                return 'detail=trusted' in get(server, 'A').headers['Cache-Status']
            wait_until(is_believed, 'what the wiki says again and again is believed', pause=0.2)
            for _ in range(2):
                server.restart()
                words, revisions = origin.count('words'), origin.count('revisions')
                eq(name_of(get(server, 'A')), now)
                eq((origin.count('words'), origin.count('revisions')), (words + 1, revisions))
            eq(name_of(get(server, 'A', 100)), imported)
            eq(origin.count('render'), 2)


@scene
def only_if_cached_asks_nobody(binary):
    """The latest is given until trust_max, then it is 504, to whoever asks: a wiki that was not asked is not down."""
    with Origin() as origin:
        origin.page('A', (1, 'old'), (2, 'new'))
        with origin_server(binary, origin, '--set', 'page.stale_if_error=1h') as server:
            old, new = name_of(get(server, 'A', 1)), name_of(get(server, 'A'))
            asked = sum(origin.calls.values())
            for name in (old, new):
                eq(name_of(get(server, 'A', *name, headers=ONLY)), name)
            eq(name_of(get(server, 'A', headers=ONLY)), new)
            server.clock(advance='4m')       # more than trust_ttl, less than trust_max
            eq(name_of(get(server, 'A', headers=ONLY)), new)
            refused(server, 504, 'not_cached', 'A', *old, headers=ONLY)     # by its number for trust_ttl
            origin.delete('A')
            server.clock(advance='2m')
            refused(server, 504, 'not_cached', 'A', headers=ONLY)
            refused(server, 504, 'not_cached', 'A', *old, headers=ONLY)
            refused(server, 504, 'not_cached', 'A', old[0], headers=ONLY)
            refused(server, 504, 'not_cached', 'A', headers=ONLY, query='?stash=true')
            eq(sum(origin.calls.values()), asked)
            refused(server, 404, 'not_found', 'A')


@scene
def what_is_known_to_be_denied_is_told_to_who_waits_for_nothing(binary):
    """As to any other reader, for as long as what is stored would be given."""
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'clean'))
        origin.page('B', (3, 'secret, never stored'), (4, 'clean'))
        origin.page('C', (5, 'deleted'))
        with origin_server(binary, origin) as server:
            for where in (('A', 1), ('A',), ('C',), ('C', 5)):
                get(server, *where)
            origin.hide('A', 1)
            origin.hide('B', 3)
            origin.delete('C')
            server.clock(advance='6m')
            denied = [(410, 'suppressed', 'A', 1), (410, 'suppressed', 'B', 3), (404, 'not_found', 'C'), (404, 'not_found', 'C', 5)]
            for answer in denied:
                refused(server, *answer)
            asked = sum(origin.calls.values())
            for minutes in (0, 2, 2):
                server.clock(advance=f'{minutes}m')
                for answer in denied:
                    refused(server, *answer, headers=ONLY)
                    if len(answer) == 4:        # a page may have been made meanwhile
                        refused(server, *answer, headers={'Prefer': 'wait=0'})
                for content in ('title', 'wikitext', 'lint'):
                    for headers in (ONLY, {'Prefer': 'wait=0'}):
                        refused(server, 403, 'access_denied#revision', 'A', 1, content=content, headers=headers)
                    refused(server, 404, 'not_found', 'C', content=content, headers=ONLY)
            eq(sum(origin.calls.values()), asked, 'nobody was asked')
            server.clock(advance='2m')
            for _, _, *where in denied:
                refused(server, 504, 'not_cached', *where, headers=ONLY)
            # It is asked again behind an answer that nobody waits for.
            origin.page('A', (1, 'secret'), (2, 'clean'))
            wait_until(lambda: server.request('GET', path('html', 'A', 1), {'Prefer': 'wait=0'}).status == 200, 'shown again')


@scene
def a_text_by_its_number_is_given_without_a_question_for_trust_ttl(binary):
    """It may be hidden by then. trust_max is for when the wiki is known to be away."""
    with Origin() as origin:
        origin.page('A', (1, 'secret'), (2, 'clean'))
        with origin_server(binary, origin) as server:
            name = name_of(get(server, 'A', 1))
            where = [('A', 1), ('A', *name)]
            for each in where:
                get(server, *each)
            origin.hide('A', 1)
            origin.touched['A'] = instant()
            for each in where:
                get(server, *each, headers=ONLY)
                get(server, *each, headers={'Prefer': 'wait=0'})
            server.clock(advance='61s')
            for each in where:
                refused(server, 504, 'not_cached', *each, headers=ONLY)
            with origin.gate('revisions'):
                for each in where:
                    refused(server, 504, 'origin_timeout', *each, headers={'Prefer': 'wait=0'})
            wait_until(lambda: server.request('GET', path('html', 'A', 1), {'Prefer': 'wait=0'}).status == 410, 'asked behind it')
            later(server)
            get(server, 'A', 2)
            server.clock(advance='61s')
            for kind in ('words', 'revisions'):
                origin.fault(kind, status_of(503))
            get(server, 'A', 2)     # which finds that the wiki is away
            for headers in (ONLY, {'Prefer': 'wait=0'}):
                get(server, 'A', 2, headers=headers)
            server.clock(advance='3m')
            refused(server, 504, 'not_cached', 'A', 2, headers=ONLY)    # nobody knows whether it still is


main()
