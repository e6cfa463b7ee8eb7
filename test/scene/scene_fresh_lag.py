"""Goal: a copy of the wiki's database that is behind takes nothing back: no revision, no page, no deletion, no hidden text.
Method: a scripted wiki that answers from what it had a while ago, after the server has heard of something newer. The server's
clock is moved; a second server hears of it over Redis."""
from harness import Server, check, eq, main, scene, wait_until
from list_help import Cluster
from origin import Origin, instant
from page_help import get, history, path
from render_help import NO_CACHE, Crowd, name_of

TTL, MAX = '61s', '6m'      # more than trust_ttl, than trust_max


def at(origin, title, *revisions, ahead=0):
    origin.page(title, *revisions)
    origin.touched[title] = instant(ahead)


def status(server, *where, headers=None, query='', content='html'):
    return server.request('GET', path(content, *where) + query, headers).status


def behind_server(binary, origin, *args):
    return Server(binary, *origin.options('localhost', check_wait='300ms'), *args, test_hooks=True)


@scene
def a_newer_revision_stays_the_latest(binary):
    """Trust is over, and the copy that answers has only the one before."""
    with Origin() as origin:
        at(origin, 'A', (1, 'first'), ahead=-60)
        with behind_server(binary, origin) as server:
            get(server, 'A')
            then = origin.copy()
            at(origin, 'A', (1, 'first'), (2, 'second'))
            eq(name_of(get(server, 'A', headers=NO_CACHE))[0], 2)
            with origin.answering(then):
                server.clock(advance='1s')
                for _ in range(3):
                    eq(name_of(get(server, 'A', query='?stash=true'))[0], 2, 'to who edits')
                    eq(name_of(get(server, 'A'))[0], 2)
                    eq(name_of(get(server, 'A', 2))[0], 2)
                    server.clock(advance='3s')
                eq(name_of(get(server, 'A', headers=NO_CACHE))[0], 2, 'made anew')
                eq({r['state'] for r in history(server, 'A')['items']} & {'deleted', 'suppressed'}, set())
            server.clock(advance=MAX)
            eq(name_of(get(server, 'A'))[0], 2)


@scene
def a_page_that_was_just_made_is_there(binary):
    with Origin() as origin:
        origin.page('Other', (1, 'other'))
        then = origin.copy()
        with behind_server(binary, origin) as server:
            at(origin, 'A', (7, 'made'))
            get(server, 'A')
            with origin.answering(then):
                for _ in range(3):
                    server.clock(advance='3s')
                    eq(status(server, 'A', query='?stash=true'), 200, 'to who edits')
                    eq(status(server, 'A'), 200)
                    eq(status(server, 'A', 7), 200)
                    eq(status(server, 'A', headers=NO_CACHE), 200, 'made anew')
            eq({r['state'] for r in history(server, 'A')['items']} & {'deleted'}, set())


@scene
def a_deleted_page_does_not_come_back(binary):
    with Origin() as origin:
        at(origin, 'A', (1, 'libel'), ahead=-60)
        then = origin.copy()
        with behind_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A'))
            origin.delete('A')
            eq(status(server, 'A', headers=NO_CACHE), 404)
            with origin.answering(then):
                for _ in range(3):
                    server.clock(advance='3s')
                    for where in (('A',), ('A', rev), ('A', rev, tid)):
                        for query in ('', '?stash=true'):
                            check(status(server, *where, query=query) != 200, f'{where} {query}')
                    check(status(server, 'A', headers=NO_CACHE) != 200, 'made anew')
                    check(status(server, 'A', content='wikitext') != 200, 'its text')
            eq(status(server, 'A'), 404)


@scene
def a_hidden_text_does_not_come_back(binary):
    with Origin() as origin:
        at(origin, 'A', (1, 'secret'), (2, 'clean'), ahead=-60)
        then = origin.copy()
        with behind_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A', 1))
            get(server, 'A')
            origin.hide('A', 1)
            origin.touched['A'] = instant()
            server.clock(advance=TTL)
            eq(status(server, 'A', 1), 410)
            with origin.answering(then):
                for _ in range(3):
                    server.clock(advance='3s')
                    for where in (('A', rev), ('A', rev, tid)):
                        for query in ('', '?stash=true'):
                            check(status(server, *where, query=query) != 200, f'{where} {query}')
                    check(status(server, 'A', 1, headers=NO_CACHE) != 200, 'made anew')
                    check(status(server, 'A', 1, content='wikitext') != 200, 'its text')
            eq(status(server, 'A', 1), 410)


@scene
def a_page_that_took_the_title_stays(binary):
    """It was deleted and made anew; the copy has the first one."""
    with Origin() as origin:
        at(origin, 'A', (1, 'libel'), ahead=-60)
        then = origin.copy()
        with behind_server(binary, origin) as server:
            get(server, 'A')
            at(origin, 'A', (9, 'clean'))
            origin.ids['A'] = 4711
            eq(name_of(get(server, 'A', headers=NO_CACHE))[0], 9)
            with origin.answering(then):
                for _ in range(3):
                    server.clock(advance='3s')
                    eq(name_of(get(server, 'A'))[0], 9)
                    eq(name_of(get(server, 'A', query='?stash=true'))[0], 9)
                    check(status(server, 'A', 1) != 200, 'by its number')
            eq(name_of(get(server, 'A'))[0], 9)


@scene
def another_server_believes_no_copy_that_is_behind_either(binary):
    """It has the render from the one that asked, and never asked the wiki itself since the edit."""
    with Origin() as origin:
        at(origin, 'A', (1, 'first'), ahead=-60)
        with Cluster(binary, 2, *origin.options('localhost', check_wait='300ms'), '--test-hooks') as cluster:
            one, two = cluster.servers
            for server in (one, two):
                eq(name_of(get(server, 'A'))[0], 1)
            then = origin.copy()
            at(origin, 'A', (1, 'first'), (2, 'second'))
            eq(name_of(get(one, 'A', headers=NO_CACHE))[0], 2)
            wait_until(lambda: name_of(get(two, 'A'))[0] == 2, 'it came over')
            with origin.answering(then):
                for server in (two, one, two):
                    server.clock(advance='3s')
                    eq(name_of(get(server, 'A', query='?stash=true'))[0], 2, 'to who edits')
                    eq(name_of(get(server, 'A'))[0], 2)
                    eq(name_of(get(server, 'A', 2))[0], 2)
            for server in (one, two):
                eq({r['state'] for r in history(server, 'A')['items']} & {'deleted', 'suppressed'}, set())


def why(server, title):
    """State of the render, and what a reader gets."""
    answer = server.json('POST', '/v1/admin.change.why', body={'domain': 'localhost', 'title': title})
    eq(answer.status, 200, answer.body)
    bucket, = answer.body['buckets']
    return bucket['state'], bucket['reader']


def made_once_more(binary, touched_s):
    """The word was of a copy that has the new template, the text of one that has not, so long after it was touched."""
    with Origin() as origin:
        at(origin, 'A', (1, 'text'), ahead=-60)
        at(origin, 'B', (2, 'other'), ahead=-60)
        then = origin.copy()
        with behind_server(binary, origin) as server:
            get(server, 'A')
            get(server, 'B')
            origin.touched['A'] = instant(-touched_s)
            origin.changed += 1
            with origin.gate('render') as gate:     # as it was before the template was edited
                made = Crowd(server, [(path('html', 'A'), NO_CACHE)])
                wait_until(lambda: gate.waiting > 0, 'the text is asked for')
            check(b'>text<' in made.wait()[0].body, 'of the copy')
            origin.stamp = ' anew'
            with origin.answering(then):
                eq(status(server, 'B', headers=NO_CACHE), 200)      # another call meets it: copies are behind
            state, gets = why(server, 'A')
            eq(state, 'unsettled', 'until copies have caught up')
            check('made within 36 s of the page\'s last change' in gets, gets)
            origin.ahead = 40
            server.clock(advance='40s')

            def is_new():
                return b'>text anew<' in get(server, 'A').body
            wait_until(is_new, 'made once more')
            renders = origin.count('render')
            for _ in range(4):
                get(server, 'A')
            eq(origin.count('render'), renders)
            eq(why(server, 'A')[0], 'fine')


@scene
def a_text_of_a_copy_that_is_behind_is_made_once_more(binary):
    made_once_more(binary, 0)


@scene
def a_text_of_a_copy_that_is_further_behind_is_made_once_more(binary):
    """Longer than a wiki without copies takes to settle."""
    made_once_more(binary, 10)


@scene
def what_went_while_no_copy_could_know_better_goes(binary):
    """A revision that is long stored, and that the wiki has no more, is hidden at once."""
    with Origin() as origin:
        at(origin, 'A', (1, 'first'), (2, 'libel'), ahead=-60)
        with behind_server(binary, origin) as server:
            eq(name_of(get(server, 'A'))[0], 2)
            server.clock(advance=MAX)
            at(origin, 'A', (1, 'first'), ahead=-90)    # deleted, and the older revisions brought back: touched as then
            eq(name_of(get(server, 'A', query='?stash=true'))[0], 1)
            eq(status(server, 'A', 2), 404)


@scene
def a_lag_that_is_longer_than_said_is_believed_in_the_end(binary):
    """So is a wiki that was brought back from a backup."""
    with Origin() as origin:
        at(origin, 'A', (1, 'first'), ahead=-60)
        then = origin.copy()
        with behind_server(binary, origin) as server:
            at(origin, 'A', (1, 'first'), (2, 'second'))
            eq(name_of(get(server, 'A'))[0], 2)
            with origin.answering(then):
                server.clock(advance=MAX)

                def is_believed():
                    server.clock(advance='31s')
                    return name_of(get(server, 'A'))[0] == 1
                wait_until(is_believed, 'what it says again and again', pause=0.2)


if __name__ == '__main__':
    main()
