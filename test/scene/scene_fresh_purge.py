"""Goal: what a wiki purges at its caches is what readers get next, whoever sends the purge, however often, and for
whatever. Method: a server in front of a scripted wiki whose pages change; PURGE as MediaWiki sends it, to the listener
for it; what the wiki was asked is counted."""
import socket

from change_help import figure, purge, purge_connection, told_server, wait_figure
from harness import Server, check, eq, main, scene
from origin import Origin
from page_help import get, path

ARTICLE = 'http://wiki.test/wiki/A'


def read(server, title='A', rev=None):
    return get(server, title, rev).body


@scene
def an_edit_is_there_for_the_next_reader(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (7, 'before'))
        for target, host in ((ARTICLE, 'wiki.test'), ('http://wiki.test/index.php?title=A&action=history', 'wiki.test'),
                             ('http://WIKI.test:81/w/index.php?title=A&action=history', 'else'),
                             ('http://other.test:8080/wiki/A', 'other.test:8080'), ('/wiki/A', 'wiki.test'),
                             ('/wiki/%41?x=1', 'wiki.test:4444'),
                             ('/localhost/v1/page/html/A', 'nobody.test'), ('/localhost/v1/page/html/A/7', 'nobody.test')):
            for _ in range(3):      # a ready answer ends, too
                last = read(server)
            origin.page('A', (origin.pages['A'][-1].rev + 1, f'by {target}'))
            eq(read(server), last, 'nobody has told of it')
            eq(purge(server, target, host).status, 200, target)
            check(f'by {target}<'.encode() in read(server), f'{target}: {read(server)}')
        wait_figure(server, 'looks_stored_total', 9)


@scene
def a_deletion_and_what_was_hidden_go_at_once(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (6, 'secret'), (7, 'latest'))
        origin.page('B', (8, 'gone'))
        for _ in range(3):
            check(b'secret' in read(server, rev=6), 'shown')
            check(b'gone' in read(server, 'B'), 'there')
        origin.hide('A', 6)
        origin.delete('B')
        eq(purge(server, ARTICLE).status, 200)
        eq(purge(server, 'http://wiki.test/wiki/B').status, 200)
        eq(server.request('GET', path('html', 'A', 6)).status, 410)
        eq(server.request('GET', path('html', 'B')).status, 404)


@scene
def a_copy_that_is_behind_is_asked_once_more(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (7, 'before'))
        read(server)
        eq(purge(server, ARTICLE).status, 200)      # the copy has not heard of it
        wait_figure(server, 'looks_stored_total', 1)
        read(server)
        origin.page('A', (8, 'after'))
        check(b'before' in read(server), 'trusted')
        asked = origin.count('words')
        eq(purge(server, ARTICLE).status, 200)      # said again: one recheck for both
        check(b'after' in read(server), 'asked again')
        origin.page('A', (9, 'in the end'))
        server.clock(advance='11s')
        wait_figure(server, 'looks_again_total', 1)
        wait_figure(server, 'looks_stored_total', 3)
        check(b'in the end' in read(server), 'asked once more')
        server.clock(advance='60s')
        eq(figure(server, 'looks_waiting'), 0)
        eq(figure(server, 'looks_again_total'), 1)
        check(origin.count('words') >= asked + 1, 'asked')


@scene
def what_is_not_stored_costs_the_wiki_nothing(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (7, 'text'))
        read(server)
        wait_figure(server, 'change_purges_total{named="title"}', 0)
        with_connection = purge_connection(server)
        for i in range(100):
            eq(purge(server, f'http://wiki.test/wiki/Unknown_{i}', connection=with_connection).status, 200)
        for target in ('http://wiki.test/images/thumb/a/ab/X.png/120px-X.png', 'http://wiki.test/load.php?modules=site',
                       'http://wiki.test/', 'http://wiki.test', 'http://wiki.test/wiki/', 'http://wiki.test/wiki/%ff',
                       'http://wiki.test/wiki/A%00', 'http://wiki.test/wiki/..', 'http://wiki.test/v1/queue.lease',
                       'http://wiki.test/metrics', 'http://wiki.test/wiki/' + 'x' * 2000,
                       'http://wiki.test/w/index.php?title=', 'http://wiki.test/wiki/Special:Version'):
            eq(purge(server, target, connection=with_connection).status, 200, target)
        with_connection.close()
        wait_figure(server, 'looks_unknown_total', 100)
        server.clock(advance='1h')
        eq(figure(server, 'looks_waiting'), 0)
        eq(origin.count('words'), 0)


@scene
def only_known_hosts_and_only_from_where_it_may(binary):
    with Origin() as origin, told_server(binary, origin, '--set', 'change.purge_from=127.0.0.1') as server:
        origin.page('A', (7, 'text'))
        for target, host in (('http://nobody.test/wiki/A', 'wiki.test'), ('/wiki/A', 'nobody.test'),
                             ('http://other.test/wiki/A', 'x'), ('/nobody/v1/page/html/A', 'x')):
            eq(purge(server, target, host).status, 404, target)
        eq(figure(server, 'change_purges_total{named="unknown"}'), 4)
        for method in ('GET', 'POST', 'DELETE', 'HEAD'):        # and nothing else is answered there
            eq(purge(server, path('html', 'A'), 'localhost', method).status, 405, method)
        eq(server.request('PURGE', '/wiki/A', {'Host': 'wiki.test'}).status, 404)      # nor is it taken elsewhere
        port = int(server.wait_line('purge on ').rpartition(':')[2])
        with socket.create_connection(('127.0.0.1', port), source_address=('127.0.0.2', 0)) as peer:
            peer.sendall(b'PURGE http://wiki.test/wiki/A HTTP/1.1\r\nHost: wiki.test\r\nConnection: close\r\n\r\n')
            check(peer.recv(12) == b'HTTP/1.1 403', 'refused from there')
        eq(figure(server, 'change_purges_total{named="refused"}'), 1)


@scene
def many_on_one_connection_one_behind_the_other(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        for i in range(20):
            origin.page(f'P{i}', (100 + i, 'before'))
            read(server, f'P{i}')
            origin.page(f'P{i}', (200 + i, f'after {i}'))
        port = int(server.wait_line('purge on ').rpartition(':')[2])
        with socket.create_connection(('127.0.0.1', port)) as peer:
            peer.sendall(b''.join(f'PURGE http://wiki.test/wiki/P{i} HTTP/1.1\r\nHost: wiki.test\r\n'
                                  f'Connection: {"close" if i == 19 else "Keep-Alive"}\r\n\r\n'.encode() for i in range(20)))
            got = b''
            while piece := peer.recv(65536):
                got += piece
        eq(got.count(b'HTTP/1.1 200'), 20)
        for i in range(20):
            check(f'after {i}<'.encode() in read(server, f'P{i}'), f'P{i}')
        check(origin.count('words') < 45, f'asked together: {origin.count("words")} calls')


@scene
def the_recheck_and_what_waits_end_with_the_server(binary):
    with Origin() as origin, told_server(binary, origin, '--set', 'change.event_recheck=1h') as server:
        for i in range(50):
            origin.page(f'P{i}', (100 + i, 'text'))
            read(server, f'P{i}')
        with_connection = purge_connection(server)
        with origin.gate('words'):
            for i in range(50):
                eq(purge(server, f'http://wiki.test/wiki/P{i}', connection=with_connection).status, 200)
            with_connection.close()
            eq(server.sigterm(), 0, 'exit code')
        server.start()
        check(b'text' in read(server, 'P1'), 'and again')


@scene
def other_article_paths(binary):
    with Origin() as origin:
        options = [*origin.options('localhost', article_path='/index.php/$1.html'), '--set', 'change.purge_listen=[::1]:0']
        with Server(binary, *options) as server:
            origin.page('A', (7, 'before'))
            read(server)
            port = int(server.wait_line('purge on ').rpartition(':')[2])
            for i, host in enumerate((b'127.0.0.1', b'localhost:1')):     # the url's, and the domain's name
                origin.page('A', (8 + i, f'after {i}'))
                with socket.create_connection(('::1', port)) as peer:
                    peer.sendall(b'PURGE http://' + host + b'/index.php/A.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
                    check(peer.recv(12) == b'HTTP/1.1 200', 'taken')
                check(f'after {i}'.encode() in read(server), 'looked at')


main()
