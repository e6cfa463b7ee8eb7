"""Goal: what one server is told of a wiki's pages, by PURGE, by POST /v1/events or by DELETE, holds
at the other one. Method: two servers on one keyspace in front of a scripted wiki; one is told, and
the other is read, which asks nobody while it trusts what it knows."""
import contextlib
import json
import time

from rig import check, eq, main, scene, wait_until

from change_help import purge
from origin import Origin
from served import applied, serve

PAGE = '/localhost/v1/page/html/'
MORE = ('change.purge_listen=127.0.0.1:0',)


@contextlib.contextmanager
def two_servers(binary, space):
    """(origin, the one that is told, the one that is read)."""
    cluster = applied(binary, space)
    with Origin() as origin:
        said = [word for word in origin.options('localhost', hosts='wiki.test', check_wait='30s')
                if word != '--set']
        with serve(binary, cluster, space, *said, *MORE, test_hooks=True) as a, \
                serve(binary, cluster, space, *said, *MORE, test_hooks=True) as b:
            yield origin, a, b


def read(server, *where):
    """The body, or the status of a refusal."""
    answer = server.request('GET', PAGE + '/'.join(str(part) for part in where))
    return answer.body if answer.status == 200 else answer.status


def shows(server, text, *where):
    def there():
        got = read(server, *where)
        return got == text if isinstance(text, int) else not isinstance(got, int) and text in got
    wait_until(there, f'{where} is {text}', timeout=60, pause=0.1)


def now():
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 1))


def tell(server, stream, **members):
    event = {'$schema': f'/{stream}/1.0.0', 'meta': {'stream': stream, 'domain': 'localhost',
                                                     'dt': now()}, **members}
    answer = server.json('POST', '/v1/events', body=event)
    eq(answer.status, 201, answer.body)


@scene
def a_purge_at_one_is_an_edit_at_the_other(binary):
    with two_servers(binary, 'told_purge') as (origin, a, b):
        origin.page('A', (7, 'seven'))
        rev = 7
        for target in ('http://wiki.test/wiki/A', '/wiki/A', PAGE + 'A', f'{PAGE}A/7',
                       'http://wiki.test/w/index.php?title=A&action=history'):
            last = read(a, 'A')
            for server in (a, b, b):
                eq(read(server, 'A'), last)
            rev += 1
            origin.page('A', (rev, f'by {target}'))
            eq(read(b, 'A'), last, 'nobody has told of it')
            eq(purge(a, target).status, 200, target)
            shows(b, f'by {target}<'.encode(), 'A')
        eq(purge(a, 'http://else.test/wiki/A', 'else.test').status, 404)


@scene
def a_purge_at_one_hides_and_deletes_at_the_other(binary):
    with two_servers(binary, 'told_hides') as (origin, a, b):
        origin.page('A', (6, 'secret'), (7, 'latest'))
        origin.page('B', (8, 'gone'))
        for server in (a, b):
            check(b'secret' in read(server, 'A', 6), 'shown')
            check(b'gone' in read(server, 'B'), 'there')
        origin.hide('A', 6)
        origin.delete('B')
        eq(purge(a, 'http://wiki.test/wiki/A').status, 200)
        eq(purge(a, 'http://wiki.test/wiki/B').status, 200)
        shows(b, 410, 'A', 6)
        shows(b, 404, 'B')
        check(b'latest' in read(b, 'A'), 'the newest is there')


@scene
def an_event_at_one_has_its_effect_at_the_other(binary):
    with two_servers(binary, 'told_events') as (origin, a, b):
        origin.page('A', (7, 'seven'))
        origin.page('H', (5, 'secret'), (6, 'six'))
        for server in (a, b):
            check(b'seven' in read(server, 'A'), 'there')
            check(b'secret' in read(server, 'H', 5), 'shown')

        origin.page('A', (8, 'eight'))
        origin.touched['A'] = now()
        tell(a, 'mediawiki.revision-create', page_title='A', rev_id=8)
        shows(b, b'eight', 'A')

        origin.hide('H', 5)
        origin.touched['H'] = now()
        tell(a, 'mediawiki.revision-visibility-change', page_title='H', rev_id=5)
        shows(b, 410, 'H', 5)
        origin.page('H', (5, 'secret'), (6, 'six'))
        origin.touched['H'] = now()
        tell(b, 'mediawiki.revision-visibility-change', page_title='H', rev_id=5)
        shows(a, b'secret', 'H', 5)

        pages = origin.pages['A']
        origin.delete('A')
        tell(a, 'mediawiki.page-delete', page_title='A', rev_id=8)
        shows(b, 404, 'A')
        origin.page('A', *[(r.rev, r.text) for r in pages])
        origin.touched['A'] = now()
        tell(b, 'mediawiki.page-undelete', page_title='A', rev_id=8)
        shows(a, b'eight', 'A')

        origin.delete('A')
        origin.page('Moved', (9, 'moved away'))
        origin.touched['Moved'] = now()
        tell(b, 'mediawiki.page-move', page_title='Moved', rev_id=9,
             prior_state={'page_title': 'A'})
        shows(a, b'moved away', 'Moved')
        shows(a, 404, 'A')


@scene
def what_one_purges_the_other_makes_anew(binary):
    """Also when the clock of who purged is ahead: a render must be younger than the purge."""
    with two_servers(binary, 'told_anew') as (origin, a, b):
        origin.page('A', (7, 'seven'))
        a.clock(advance='400ms')
        eq(b.request('GET', PAGE + 'A').status, 200)
        for _ in range(3):
            eq(a.request('DELETE', '/localhost/v1/page/all/A').status, 204)
            answer = b.request('GET', PAGE + 'A', {'Cache-Control': 'no-cache'})
            eq(answer.status, 200, answer.body)
            tag = answer.headers['ETag']
            wait_until(lambda tag=tag: a.request('GET', PAGE + 'A').headers['ETag'] == tag,
                       'the other one has it')
            items = json.loads(a.request('GET', '/localhost/v1/page/history/A').body)['items']
            eq(len(items), 1)


main()
