"""How old an answer may be: what readers get when the wiki has changed and nobody told us."""
import time

from harness import check, eq, main, scene, wait_until
from origin import Origin, hang, once, status_of
from page_help import get, later, path, problem
from render_help import cache_of, impatient_server, metric, name_of, origin_server
from shared_store import differs

# Defaults of an origin: trust_ttl 60 s, trust_max 5 minutes.
YOUNG, OLD, TOO_OLD = '59s', '61s', '301s'


def said(answer):
    """detail and Age: how the wiki was asked, and how long ago."""
    detail = (answer.headers['Cache-Status'] or '').partition('detail=')[2] or None
    return detail, None if answer.headers['Age'] is None else int(answer.headers['Age'])


def touch(origin, title, day):
    """A template of it was edited."""
    origin.stamp = f' template of day {day}'
    origin.touched[title] = f'2026-01-{day:02d}T00:00:00Z'


def words(origin):
    return origin.count('words')


@scene
def an_edit_that_nobody_told_of_is_seen_when_trust_ends(binary):
    with Origin() as origin:
        origin.page('A', (7, 'old'))
        with origin_server(binary, origin) as server:
            eq(said(get(server, 'A')), ('leader', 0))
            origin.page('A', (7, 'old'), (8, 'new'))
            for _ in range(3):      # the third is a ready one
                eq(said(get(server, 'A')), ('trusted', 0))
            server.clock(advance=YOUNG)
            eq((name_of(get(server, 'A'))[0], said(get(server, 'A'))), (7, ('trusted', 59)))
            eq(words(origin), 0)
            server.clock(advance='2s')      # trust_ttl is over: asked behind the answer
            first = get(server, 'A')
            eq((name_of(first)[0], said(first)), (7, ('trusted', 61)))
            wait_until(lambda: name_of(get(server, 'A'))[0] == 8, 'the new revision')
            eq(words(origin), 1)
            origin.page('A', (7, 'old'), (8, 'new'), (9, 'newest'))
            server.clock(advance=TOO_OLD)   # trust_max is over: asked before the answer
            answer = get(server, 'A')
            eq((name_of(answer)[0], cache_of(answer)), (9, 'nocache'))
            eq(words(origin), 2)


@scene
def who_does_not_wait_gets_nothing_that_nobody_knows(binary):
    at_once = {'Prefer': 'wait=0'}
    with Origin() as origin:
        origin.page('A', (7, 'old'))
        with origin_server(binary, origin) as server:
            problem(get(server, 'A', status=504, headers=at_once), 504, 'origin_timeout')
            wait_until(lambda: server.request('GET', path('html', 'A'), at_once).status == 200, 'it is made behind that')
            server.restart()
            origin.delete('A')
            with origin.gate('words'):
                for target in (path('html', 'A'), path('html', 'A', 7)):
                    problem(server.request('GET', target, at_once), 504, 'origin_timeout')
            wait_until(lambda: server.request('GET', path('html', 'A'), at_once).status == 404, 'it is asked behind that')


@scene
def who_edits_gets_the_newest_at_once(binary):
    with Origin() as origin:
        origin.page('A', (7, 'old'))
        with origin_server(binary, origin) as server:
            get(server, 'A')
            server.clock(advance='3s')
            touch(origin, 'A', 2)
            check(b'day 2' in get(server, 'A', query='?stash=true').body, 'the new template')
            server.clock(advance='3s')
            origin.page('A', (7, 'old'), (8, 'new'))
            editor = get(server, 'A', query='?stash=true&redirect=false')
            check(b'>new' in editor.body, editor.body)
            eq(name_of(get(server, 'A'))[0], 8)
            origin.page('A', (7, 'old'), (8, 'new'), (9, 'newer'))
            eq(name_of(get(server, 'A', query='?stash=true&redirect=false'))[0], 9, 'within the same second')
            origin.delete('A')
            problem(get(server, 'A', query='?stash=true', status=404), 404, 'not_found')
            origin.page('A', (11, 'anew'))
            later(server)
            eq(name_of(get(server, 'A', query='?stash=true&redirect=false'))[0], 11)
            for query in ('', '?stash=true'):
                problem(get(server, 'New', query=query, status=404), 404, 'not_found')
            origin.page('New', (12, 'made'))
            later(server)
            eq(name_of(get(server, 'New', query='?stash=true'))[0], 12)


@scene
def a_template_makes_a_render_anew_once(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin) as server:
            first = name_of(get(server, 'A'))
            touch(origin, 'A', 2)
            server.clock(advance=TOO_OLD)
            answer = get(server, 'A')
            check(b'day 2' in answer.body and name_of(answer) != first, answer.body)
            for _ in range(3):
                eq(cache_of(get(server, 'A')), 'hit')
            server.clock(advance=TOO_OLD)
            eq(said(get(server, 'A')), ('checked', 0))
            eq(origin.count('render'), 2)


@scene
def what_is_hidden_is_not_given_by_number_when_trust_is_over(binary):
    with Origin() as origin:
        origin.page('A', (7, 'secret'), (8, 'clean'))
        with origin_server(binary, origin) as server:
            named, latest = name_of(get(server, 'A', 7)), name_of(get(server, 'A'))
            for rev, name in ((7, named), (8, latest)):
                check(get(server, 'A', *name).status == 200, rev)
            origin.hide('A', 7)
            server.clock(advance=YOUNG)
            eq(get(server, 'A', *named).status, 200)    # as stated: for trust_ttl
            server.clock(advance='2s')
            problem(get(server, 'A', *named, status=410), 410, 'suppressed')
            problem(get(server, 'A', 7, status=410), 410, 'suppressed')
            problem(get(server, 'A', *named, content='data-parsoid', status=410), 410, 'suppressed')
            eq(get(server, 'A').status, 200)


@scene
def a_page_that_went_or_moved_is_not_given(binary):
    with Origin() as origin:
        for title, rev in (('A', 7), ('B', 8), ('C', 9)):
            origin.page(title, (rev, f'text of {title}'))
        with origin_server(binary, origin) as server:
            names = {title: name_of(get(server, title)) for title in 'ABC'}
            origin.delete('A')                          # deleted
            origin.pages['D'] = origin.pages.pop('B')   # moved without a redirect
            origin.page('C', (10, 'another life'))      # deleted, and made anew
            server.clock(advance=TOO_OLD)
            problem(get(server, 'A', status=404), 404, 'not_found')
            problem(get(server, 'B', status=404), 404, 'not_found')
            check(b'another life' in get(server, 'C').body, 'the new page')
            for title in 'ABC':
                check(server.request('GET', path('html', title, *names[title])).status in (404, 410), title)
            check(b'text of B' in get(server, 'D').body, 'where it moved')
            origin.page('A', (7, 'text of A'))          # undeleted, under its old number
            server.clock(advance=OLD)
            wait_until(lambda: server.request('GET', path('html', 'A')).status == 200, 'the page is back')


@scene
def a_wiki_that_cannot_be_asked(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'), (8, 'more'))
        with impatient_server(binary, origin, '--set', 'page.stale_if_error=1h') as server:
            named, latest = name_of(get(server, 'A', 7)), name_of(get(server, 'A'))
            get(server, 'A', *named)
            origin.fault('words', status_of(503))
            origin.fault('revisions', status_of(503))
            origin.fault('meta', status_of(503))
            server.clock(advance='290s')
            eq(said(get(server, 'A')), ('trusted', 290))
            eq(said(get(server, 'A', *named)), ('unchecked', 290))
            server.clock(advance='20s')
            eq(said(get(server, 'A')), ('unchecked', 310))
            refused = get(server, 'A', *named, status=503)
            problem(refused, 503, 'origin_busy')
            check(int(refused.headers['Retry-After']) >= 1, refused.headers)
            eq(said(get(server, 'A', query='?stash=true'))[0], 'unchecked')     # the wiki finds conflicts at the save
            server.clock(advance='1h')
            problem(get(server, 'A', status=503), 503, 'origin_busy')
            eq(name_of(get(server, 'A', query='?stash=true')), latest)
            for kind in ('words', 'revisions', 'meta'):
                origin.fault(kind, None)
            wait_until(lambda: server.request('GET', path('html', 'A')).status == 200, 'it is asked again')


@scene
def a_page_that_nobody_read_for_long_is_given_when_the_wiki_went_down_now(binary):
    with Origin() as origin:
        for title, rev in (('A', 7), ('B', 8)):
            origin.page(title, (rev, 'text'))
        with impatient_server(binary, origin, '--set', 'page.stale_if_error=1h') as server:
            get(server, 'A'), get(server, 'B')
            server.clock(advance='2h')
            eq(said(get(server, 'A')), ('checked', 0))
            origin.fault('words', status_of(503))
            eq(said(get(server, 'B')), ('unchecked', 7200))


@scene
def who_waits_for_a_word_waits_no_longer_than_check_wait(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin, '--set', 'domains.localhost.origin.check_wait=100ms',
                           '--set', 'page.stale_if_error=1h') as server:
            get(server, 'A')
            origin.fault('words', hang)
            server.clock(advance=TOO_OLD)
            began = time.monotonic()
            eq(said(get(server, 'A'))[0], 'unchecked')
            check(time.monotonic() - began < 20, 'it waited for the wiki')


@scene
def who_leaves_while_a_page_is_made_anew_leaves_nothing_behind(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin) as server:
            get(server, 'A')
            touch(origin, 'A', 2)
            server.clock(advance=TOO_OLD)
            with origin.gate('render') as gate:
                peer = server.connect()
                peer.sendall(f'GET {path("html", "A")} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
                wait_until(lambda: gate.waiting == 1, 'it is made anew')
                peer.close()
                wait_until(lambda: metric(server, 'flight_waiters') == 0, 'nobody waits for it')
                gate.open()
            wait_until(lambda: b'day 2' in get(server, 'A').body, 'it was made all the same')
            # Its end finds a cell of trust that is still held.


@scene
def ready_answers_of_a_wiki_that_was_closed_end_with_its_word(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        origin.page('B', (8, 'text'))
        with origin_server(binary, origin) as server:
            for _ in range(4):
                get(server, 'A'), get(server, 'B')
            origin.bot = 'Bearer nobody-has-this'
            server.clock(advance=OLD)
            get(server, 'A')                # asks behind its answer
            wait_until(lambda: server.request('GET', path('html', 'A')).status == 403, 'it is closed')
            problem(get(server, 'B', status=403), 403, 'access_denied#wiki')    # which was ready
            origin.bot = None
            wait_until(lambda: server.request('GET', path('html', 'B')).status == 200, 'it is open again')


API = ('siteinfo', 'meta', 'words', 'revisions', 'plain')


@scene
def a_wiki_to_which_a_proxy_lets_nobody_is_closed(binary):
    """Every question is 401 or 403, for longer than a moment."""
    for code in (401, 403):
        with Origin() as origin:
            origin.page('A', (7, 'text'))
            origin.page('B', (8, 'text'))
            with origin_server(binary, origin) as server:
                for _ in range(4):
                    get(server, 'A'), get(server, 'B')
                for kind in (*API, 'render'):
                    origin.fault(kind, status_of(code))
                server.clock(advance=TOO_OLD)
                eq(get(server, 'A', query='?stash=true').status, 200, 'once may be anything')

                def is_closed():
                    server.clock(advance='5s')
                    return server.request('GET', path('html', 'A')).status == 403
                wait_until(is_closed, 'it is closed')
                for query in ('', '?stash=true'):
                    problem(get(server, 'B', status=403, query=query), 403, 'access_denied#wiki')
                problem(get(server, 'B', 8, status=403, headers={'Cache-Control': 'only-if-cached'}), 403, 'access_denied#wiki')
                for kind in API:
                    origin.fault(kind, status_of(503))
                problem(get(server, 'B', status=403), 403, 'access_denied#wiki')    # nor does it open when it is away
                for kind in (*API, 'render'):
                    origin.fault(kind, None)
                wait_until(lambda: server.request('GET', path('html', 'B')).status == 200, 'it is open again')


@scene
def what_a_proxy_refuses_now_and_then_closes_no_wiki(binary):
    """It does not like a title, but plain questions; or it wants fewer requests for a moment."""
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin, '--set', 'page.stale_if_error=30d') as server:
            get(server, 'A')
            asked = origin.count('plain')

            def is_plain():
                server.clock(advance=TOO_OLD)
                eq(get(server, 'A').status, 200)
                return origin.count('plain') >= asked + 3
            origin.fault('words', status_of(403))
            wait_until(is_plain, 'it was asked plainly')
            origin.fault('words', None)
            for _ in range(3):
                words = origin.count('words')
                for kind in API:
                    origin.fault(kind, once(status_of(403)))

                def is_asked(words=words):
                    server.clock(advance=TOO_OLD)
                    eq(get(server, 'A').status, 200)
                    return origin.count('words') >= words + 2
                wait_until(is_asked, 'it was refused, and asked again')


@scene
def a_wiki_that_denies_a_page_that_nobody_knew_is_closed(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        origin.page('B', (8, 'text'))
        with origin_server(binary, origin) as server:
            for _ in range(4):
                get(server, 'A')
            origin.bot = 'Bearer nobody-has-this'
            problem(get(server, 'B', status=403), 403, 'access_denied#wiki')
            wait_until(lambda: server.request('GET', path('html', 'A')).status == 403, 'what was ready and trusted is not')


@scene
def a_word_on_the_title_counts_for_its_newest_revision_when_nobody_answers(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with impatient_server(binary, origin) as server:
            name = name_of(get(server, 'A'))
            origin.fault('words', status_of(503))
            origin.fault('revisions', status_of(503))
            server.clock(advance=OLD)
            eq(said(get(server, 'A', *name)), ('unchecked', 61))
            server.clock(advance=TOO_OLD)
            problem(get(server, 'A', *name, status=503), 503, 'origin_busy')


@scene
def a_wiki_that_wants_a_day_of_peace_gets_some_minutes(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with impatient_server(binary, origin) as server:
            get(server, 'A')
            origin.fault('words', status_of(429, retry_after='86400'))
            server.clock(advance=TOO_OLD)
            eq(said(get(server, 'A'))[0], 'unchecked')
            stated = get(server, 'A', query='?stash=true')
            eq(said(stated)[0], 'unchecked')
            refused = get(server, 'A', 7, headers={'Cache-Control': 'stale-if-error=0'}, status=503)
            check(int(refused.headers['Retry-After']) <= 300, refused.headers['Retry-After'])


@scene
def what_was_brought_back_and_made_once_more_is_young(binary):
    """An undelete sets touched back, and the render is the same as long before."""
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        origin.touched['A'] = '2026-02-01T00:00:00Z'
        with origin_server(binary, origin) as server:
            get(server, 'A')
            server.clock(advance='30s')
            origin.delete('A')
            get(server, 'A', status=404, query='?stash=true')
            server.clock(advance='61s')
            origin.page('A', (7, 'text'))
            origin.touched['A'] = '2026-01-01T00:00:00Z'
            answer = get(server, 'A')
            eq((cache_of(answer), answer.headers['Age']), ('miss', '0'))


@scene
def age_is_never_above_what_caches_are_allowed(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        with origin_server(binary, origin, '--set', 'page.cache_control=public, max-age=300, s-maxage=30') as server:
            get(server, 'A')
            for advance, want in (('20s', 20), ('20s', 30), ('15s', 30)):
                server.clock(advance=advance)
                for _ in range(3):
                    eq(said(get(server, 'A')), ('trusted', want))


@scene
def a_page_that_was_touched_in_a_far_year_is_checked_as_others(binary):
    """By a clock that was wrong for a while, or an import: later than all that is an instant here."""
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        origin.touched['A'] = '2999-01-01T00:00:00Z'
        with origin_server(binary, origin) as server:
            get(server, 'A')
            for _ in range(2):
                server.clock(advance=TOO_OLD)
                eq(said(get(server, 'A')), ('checked', 0))
            why = server.json('POST', '/v1/admin.change.why', body={'domain': 'localhost', 'title': 'A'}).body
            eq(why['word']['touched'], '2261-12-31T23:59:59.000Z')
            eq(why['buckets'][0]['made_under']['touched'], '2261-12-31T23:59:59.000Z')
            origin.page('A', (7, 'text'), (8, 'newer'))
            server.clock(advance=TOO_OLD)
            check(b'newer' in get(server, 'A').body, 'it is seen')


@scene
def words_that_are_trusted_for_ever_are_asked_for_once(binary):
    with Origin() as origin:
        origin.page('A', (7, 'text'))
        origin.page('B', (8, 'text'), (9, 'newer'))
        never = [word for name in ('trust_ttl', 'trust_max') for word in ('--set', f'domains.localhost.origin.{name}=never')]
        with origin_server(binary, origin, *never) as server:
            name = name_of(get(server, 'B', 8))
            get(server, 'A')
            server.clock(advance='2h')
            eq(said(get(server, 'A'))[0], 'trusted')
            server.restart()
            origin.hide('B', 8)
            eq(said(get(server, 'A')), ('checked', 0))      # nothing is trusted now
            problem(get(server, 'B', *name, status=410), 410, 'suppressed')
            server.clock(advance='2h')
            eq(said(get(server, 'A'))[0], 'trusted')
            eq(words(origin), 1)


@scene
def nobody_is_asked_about_what_has_no_wiki(binary):
    with Origin() as origin:
        with origin_server(binary, origin, '--domain', 'plain.test') as server:
            target = '/plain.test/v1/page/html/A'
            eq(server.request('PUT', target + '/7', {'Content-Type': 'text/html'}, b'mine').status, 201)
            server.clock(advance=TOO_OLD)
            answer = server.request('GET', target)
            eq((answer.headers['Cache-Status'], answer.headers['Age']), ('palimpsest; hit', None))
            eq(sum(origin.calls.values()), 0)


@scene
def many_titles_that_are_read_are_asked_for_in_one_call(binary):
    with Origin() as origin:
        titles = [f'T{i}' for i in range(50)]
        for i, title in enumerate(titles):
            origin.page(title, (100 + i, 'text'))
        with origin_server(binary, origin) as server:
            for title in titles:
                get(server, title)
            server.clock(advance=OLD)
            began = time.monotonic()
            for title in titles:
                get(server, title)
            read_s = time.monotonic() - began
            wait_until(lambda: said(get(server, titles[-1]))[1] == 0, 'a word')
            wait_until(lambda: all(said(get(server, title))[1] == 0 for title in titles), 'all words')
            calls = 2
            if differs('each read takes a round trip, so not all are gathered within one second: a call a second is made'):
                calls += int(read_s)
            check(words(origin) <= calls, f'{words(origin)} calls, reads took {read_s} s')


main()
