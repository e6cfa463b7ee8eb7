"""Goal: a page that is gone is gone for who opens it on another server, too, though that one was just told of something that
it never heard itself: an edit, a touch, a render on its way.
Method: two servers with one Redis, a scripted wiki whose list of changes grows. Trust lasts for hours, so that no server
asks by itself; an editor asks each time."""
import concurrent.futures
import contextlib

from harness import check, eq, main, scene, wait_until
from list_help import Cluster
from origin import Origin, instant
from render_help import NO_CACHE, metric, name_of

PAGE = '/localhost/v1/page/html/A'
EDIT = PAGE + '?redirect=false&stash=true'


@contextlib.contextmanager
def two(binary, *args):
    """Both have the page, and the wiki named it just now."""
    with Origin() as origin:
        origin.page('Other', (4, 'other'))
        made(origin, (5, 'first'))
        with Cluster(binary, 2, *args, *origin.options('localhost', trust_ttl='2h', trust_max='3h')) as c:
            for server in c.servers:
                eq(server.request('GET', PAGE).status, 200)
            yield origin, c


def made(origin, *revisions):
    origin.page('A', *revisions)
    origin.touched['A'] = instant()


def opens(server):
    return server.request('GET', EDIT)


def told(server, act, times=1):
    """The server is told of this by the other one."""
    before = metric(server, 'trust_doubts_total')
    act()
    wait_until(lambda: metric(server, 'trust_doubts_total') >= before + times, 'it was told')


def is_gone(*servers):
    for server in servers:
        answer = opens(server)
        eq(answer.status, 404, f'{answer.headers["Cache-Status"]} {answer.body[:80]}')
        eq(server.request('GET', PAGE).status, 404)


@scene
def after_an_edit_that_only_the_other_heard(binary):
    with two(binary) as (origin, c):
        a, b = c.servers
        made(origin, (5, 'first'), (6, 'second'))
        told(b, lambda: eq(name_of(opens(a))[0], 6))
        origin.delete('A')
        is_gone(b, a)


@scene
def after_a_touch_that_only_the_other_heard(binary):
    with two(binary) as (origin, c):
        a, b = c.servers
        origin.touched['A'] = instant(1)
        origin.changed += 1     # the template's edit
        told(b, lambda: eq(opens(a).status, 200))
        origin.delete('A')
        is_gone(b, a)


@scene
def a_render_that_was_begun_before_brings_nothing_back(binary):
    with two(binary) as (origin, c), concurrent.futures.ThreadPoolExecutor(2) as pool:
        a, b = c.servers
        made(origin, (5, 'first'), (6, 'second'))
        with origin.gate('render', written=True) as gate:
            one = pool.submit(a.request, 'GET', PAGE, NO_CACHE)
            wait_until(lambda: gate.waiting == 1, 'A makes it')
            other = pool.submit(opens, b)
            wait_until(lambda: metric(b, 'check_words_total{domain="localhost"}') > 1, 'B knows that it is new')
            origin.delete('A')
            gate.open()
            one.result()
            other.result()
        is_gone(b, a)


@scene
def after_an_event_that_came_to_the_other(binary):
    """It comes when both have heard of the edit, or before either has."""
    event = {'meta': {'stream': 'mediawiki.revision-create', 'domain': 'wiki.test'}, 'page_title': 'A', 'rev_id': 6}

    def tell(server):
        eq(server.json('POST', '/v1/events', body=event).status, 201)
    for late in (False, True):
        with two(binary) as (origin, c):
            a, b = c.servers
            made(origin, (5, 'first'), (6, 'second'))
            if late:
                for server in (a, b):
                    eq(name_of(opens(server))[0], 6)
                told(b, lambda: tell(a))
            else:
                told(b, lambda: tell(a), times=2)
            origin.delete('A')
            is_gone(b, a)


@scene
def a_deletion_that_is_listed_a_moment_later_is_waited_for(binary):
    """A wiki lists what it did after it has answered; and what it listed of the page before goes first."""
    for lost in (1, 2):
        with two(binary) as (origin, c), concurrent.futures.ThreadPoolExecutor(1) as pool:
            a, b = c.servers
            made(origin, (5, 'first'), (6, 'second'))
            told(b, lambda: eq(name_of(opens(a))[0], 6))
            origin.delete('A')
            listed = origin.changed
            origin.changed -= lost
            with origin.gate('words', written=True) as gate:
                opened = pool.submit(opens, b)
                wait_until(lambda: gate.waiting == 1, 'B asks')
                origin.changed = listed
                gate.open()
                answer = opened.result()
            eq(answer.status, 404, answer.headers['Cache-Status'])


@scene
def a_copy_that_is_behind_proves_nothing(binary):
    """It shows no change that is newer than the one that the other server saw: a page that was made just now stays."""
    with two(binary) as (origin, c):
        a, b = c.servers
        origin.delete('A')
        is_gone(b, a)
        then = origin.copy()
        made(origin, (7, 'anew'))
        told(b, lambda: eq(name_of(a.request('GET', PAGE, NO_CACHE))[0], 7))
        eq(name_of(b.request('GET', PAGE, NO_CACHE))[0], 7)
        made(origin, (7, 'anew'), (8, 'edited'))
        told(b, lambda: eq(name_of(opens(a))[0], 8))
        with origin.answering(then):
            for _ in range(2):
                eq(opens(b).status, 200, 'to who edits')
                eq(b.request('GET', PAGE).status, 200)
        eq(name_of(opens(b))[0], 8)


if __name__ == '__main__':
    main()
