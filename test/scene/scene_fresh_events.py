"""Goal: events as EventBus sends them make the server look at the pages that they name, and are answered as EventGate
answers; what they say is not believed. Method: a server in front of a scripted wiki whose pages change; events of both
generations, forged, twice, late, broken; what the wiki was asked is counted."""
import gzip
import json
import select
import socket
import subprocess
import tempfile
import time
import urllib.parse

import shared_store
from change_help import figure, told_server, wait_figure
from harness import Server, check, eq, main, scene, wait_until
from origin import Origin, status_of
from page_help import get, path
from shared_store import differs

EVENTS = '/v1/events'
HASTY = EVENTS + '?hasty'
TEN_MIB = 10 << 20


def event(stream, domain='localhost', dt=None, uri='http://wiki.test/wiki/U', **members):
    meta = {'stream': stream, 'id': '4f533261-e5f8-11f1-bc4a-ad5383df5814', 'uri': uri}
    if domain:
        meta['domain'] = domain
    if dt:
        meta['dt'] = dt
    return {'$schema': f'/{stream}/1.0.0', 'meta': meta, **members}


def page_change(kind, title, rev, **members):
    """As the extension's second way has it, since MediaWiki 1.41: in this order."""
    return {'changelog_kind': 'update', 'page_change_kind': kind, 'dt': now(), 'wiki_id': 'wiki',
            'page': {'page_id': 3, 'page_title': title, 'namespace_id': 0, 'is_redirect': False},
            'performer': {'user_text': 'Admin', 'groups': ['*'], 'is_bot': False}, 'comment': 'said "why"',
            'revision': {'rev_id': rev, 'rev_dt': '2026-01-01T00:00:00Z', 'is_content_visible': True,
                         'content_slots': {'main': {'slot_role': 'main', 'content_model': 'wikitext', 'content_size': 44}}},
            **members, **event('mediawiki.page_change.v1', dt=now(1))}


def now(seconds=0):
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + seconds))


def told(server, *events, status=201, target=EVENTS):
    answer = server.json('POST', target, body=list(events) if len(events) != 1 else events[0])
    eq(answer.status, status, f'{answer.body}')
    return answer.body


def read(server, title='A', rev=None):
    return get(server, title, rev).body


def edit(origin, title, text):
    rev = origin.pages[title][-1].rev + 1
    origin.page(title, (rev, text))
    origin.touched[title] = now()
    return rev


@scene
def an_edit_is_there_for_the_next_reader(binary):
    with Origin() as origin, told_server(binary, origin, '--set', 'change.databases=wikidb=localhost') as server:
        origin.page('A', (7, 'before'))
        makers = {
            'revision-create': lambda rev: event('mediawiki.revision-create', page_title='A', rev_id=rev),
            'page-create': lambda rev: event('mediawiki.page-create', page_title='A', rev_id=rev),
            'undelete': lambda rev: event('mediawiki.page-undelete', page_title='A', rev_id=rev),
            'by the host': lambda rev: event('mediawiki.revision-create', 'wiki.test', page_title='A', rev_id=rev),
            'by the database': lambda rev: event('mediawiki.revision-create', None, database='wikidb', page_title='A',
                                                 rev_id=rev),
            'page_change.v1': lambda rev: page_change('edit', 'A', rev),
            'links': lambda rev: event('mediawiki.page-links-change', page_title='A', rev_id=rev),
            'properties': lambda rev: event('mediawiki.page-properties-change', page_title='A', rev_id=rev),
            'by its address': lambda rev: event('resource_change', None, uri='http://wiki.test/wiki/A'),
            'purged': lambda rev: event('resource-purge', 'else.test', uri='https://wiki.test/w/index.php?title=A#x'),
            'unknown': lambda rev: event('mediawiki.cirrussearch.page_rerender.v1', page_title='A'),
        }
        for name, make in makers.items():
            for _ in range(3):
                last = read(server)
            rev = edit(origin, 'A', f'by {name}')
            eq(read(server), last, 'nobody has told of it')
            told(server, make(rev))
            check(f'by {name}<'.encode() in read(server), f'{name}: {read(server)}')
        eq(figure(server, 'change_events_total{named="title"}'), len(makers))


@scene
def a_wiki_is_known_by_the_name_it_knows_itself_by(binary):
    with Origin('known.test') as origin, Server(binary, *origin.options('localhost')) as server:
        origin.page('A', (7, 'before'))
        read(server)
        rev = edit(origin, 'A', 'after')
        told(server, event('mediawiki.revision-create', 'known.test', page_title='A', rev_id=rev))
        check(b'after' in read(server), 'looked at')


# What stands in an event of the extension, in its order, as a real wiki's were seen (test/e2e/scene_eventbus.py).
PERFORMER = {'user_text': 'Admin', 'user_groups': ['sysop', '*', 'user'], 'user_is_bot': False, 'user_id': 1,
             'user_registration_dt': '2026-01-01T00:00:00Z', 'user_edit_count': 18}
VALUES = {'database': 'wiki', 'performer': PERFORMER, 'page_id': 3, 'page_namespace': 0, 'rev_timestamp': '2026-01-01T00:00:00Z',
          'rev_sha1': 'ljc9bu9kti3p10kmnt72dx4ty2nj29c', 'rev_minor_edit': False, 'rev_len': 44, 'rev_content_model': 'wikitext',
          'rev_content_format': 'text/x-wiki', 'page_is_redirect': False, 'comment': 'said "why"', 'parsedcomment': 'said &quot;why&quot;',
          'rev_slots': {'main': {'rev_slot_content_model': 'wikitext', 'rev_slot_sha1': 'ljc9', 'rev_slot_size': 44}},
          'rev_content_changed': True, 'reason': 'x', 'user_text': '192.0.2.1', 'user_groups': ['*'], 'namespace': 0, 'type': 'edit'}
REVISION = ('database page_id page_title page_namespace rev_id rev_timestamp rev_sha1 rev_minor_edit rev_len rev_content_model '
            'rev_content_format performer page_is_redirect comment parsedcomment').split()
PAGE = 'database page_id page_title page_namespace page_is_redirect rev_id performer'.split()
BY = 'database performer page_id page_title page_namespace page_is_redirect'.split()
CAMPAIGN = 'database performer campaign_name summary'.split()
SETTINGS = {'start_dt': '2026-01-01T00:00:00Z', 'end_dt': '2026-02-01T00:00:00Z', 'enabled': True, 'archived': False,
            'banners': ['Banner_1', 'A']}
ORDER = {
    'mediawiki.revision-create': [*REVISION, 'rev_parent_id', 'rev_slots', 'rev_content_changed'],
    'mediawiki.page-create': [*REVISION, 'rev_slots'],
    'mediawiki.revision-tags-change': [*REVISION, 'tags', 'prior_state'],
    'mediawiki.revision-visibility-change': [*REVISION, 'visibility', 'prior_state'],
    'mediawiki.page-properties-change': [*PAGE, 'added_properties', 'removed_properties'],
    'mediawiki.page-links-change': [*PAGE, 'added_links', 'removed_links'],
    'mediawiki.page-delete': [*BY, 'rev_id', 'rev_count', 'comment', 'parsedcomment'],
    'mediawiki.page-undelete': [*BY, 'rev_id', 'comment', 'parsedcomment'],
    'mediawiki.page-move': [*BY, 'rev_id', 'prior_state', 'comment', 'parsedcomment'],
    'mediawiki.page-restrictions-change': [*BY, 'reason', 'page_restrictions', 'rev_id'],
    'mediawiki.user-blocks-change': 'database performer comment user_text user_groups blocks'.split(),
    'mediawiki.recentchange': 'id type namespace title comment timestamp user bot minor length revision server_url wiki parsedcomment'.split(),
    'mediawiki.job.htmlCacheUpdate': 'database type sha1 root_event params mediawiki_signature'.split(),
    'resource_change': ['tags'],
    'resource-purge': ['tags'],
    # As the extension's source has them (REL1_43): a suppressed deletion is a page/delete on a stream of its own.
    'mediawiki.page-suppress': [*BY, 'rev_id', 'rev_count', 'comment', 'parsedcomment'],
    'mediawiki.centralnotice.campaign-create': [*CAMPAIGN, *SETTINGS],
    'mediawiki.centralnotice.campaign-change': [*CAMPAIGN, *SETTINGS, 'prior_state'],
    'mediawiki.centralnotice.campaign-delete': [*CAMPAIGN, 'prior_state'],
}


def as_sent(stream, title='A', uri=None, **members):
    """The members that the extension's event of a stream has; those that are not given hold something."""
    values = {**VALUES, 'page_title': title, 'title': title, **members}
    meta = {'uri': uri or 'http://wiki.test/wiki/' + urllib.parse.quote(title), 'request_id': 'acdd4917f298a50666683dfb',
            'id': '4f533261-e5f8-41f1-bc4a-ad5383df5814', 'dt': now(), 'domain': 'wiki.test', 'stream': stream}
    return {'$schema': f'/{stream}/1.0.0', 'meta': meta, **{name: values.get(name, 7) for name in ORDER[stream]}}


def status(server, title, rev=None):
    return server.request('GET', path('html', title, rev)).status


@scene
def what_the_extension_sends_of_edits_and_purges_is_looked_at(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        count = 0
        for title, where in (('A', 'A'), ('Talk:\u00dcn\u00ef_&?+', 'Talk:%C3%9Cn%C3%AF_%26%3F%2B')):
            uri = f'http://wiki.test/wiki/{where}'
            origin.page(title, (1000 * len(title), 'before'))
            read(server, where)

            def sent(*names, title=title, uri=uri, **members):
                return [as_sent(name, title, uri, **members) for name in names]
            for events in (
                    sent('mediawiki.page-properties-change', added_properties={'defaultsort': 'q'}),
                    sent('mediawiki.page-links-change', added_links=[{'link': '/wiki/X', 'external': False}]),
                    sent('mediawiki.revision-create'), sent('mediawiki.revision-create', 'mediawiki.page-create'),
                    sent('mediawiki.revision-tags-change', tags=['x'], prior_state={'tags': []}),
                    sent('mediawiki.page-restrictions-change', page_restrictions={'edit': 'sysop', 'move': ''}),
                    sent('mediawiki.recentchange'), sent('resource_change', tags=['null_edit']), sent('resource-purge'),
                    sent('resource-purge', uri=f'http://wiki.test/w/index.php?title={where}&action=history')):
                text = f'text {count}'
                rev = edit(origin, title, text)
                for one in events:      # each alone, in an array
                    told(server, [{**one, **({'rev_id': rev} if 'rev_id' in one else {})}])
                count += len(events)
                check(f'{text}<'.encode() in read(server, where), f'{events}: {read(server, where)}')
        told(server, [as_sent('mediawiki.user-blocks-change', 'User:192.0.2.1', blocks={'name': False, 'restrictions': []})])
        jobs = [as_sent('mediawiki.job.htmlCacheUpdate', uri='https://placeholder.invalid/wiki/Special:Badtitle', params={'title': 'A'})
                for _ in range(2)]
        eq([item['event'] for item in told(server, *jobs, status=400)['invalid']], jobs)
        eq(figure(server, 'change_events_total{named="title"}'), count + 1)


def of_old_way(kind, title, rev, before=None):
    name = {'move': 'page-move', 'delete': 'page-delete', 'undelete': 'page-undelete',
            'visibility_change': 'revision-visibility-change'}[kind]
    prior = {'page_title': before, 'page_namespace': 0, 'rev_id': 3} if before else {'visibility': {'text': True}}
    return as_sent(f'mediawiki.{name}', title, rev_id=rev, prior_state=prior,
                   visibility={'text': False, 'user': True, 'comment': True})


def of_new_way(kind, title, rev, before=None):
    prior = {'page': {'page_title': before, 'namespace_id': 0}} if before else {}
    return page_change(kind, title, rev, prior_state={**prior, 'revision': {'rev_id': 3}})


@scene
def what_the_extension_sends_of_moves_and_deletions_is_looked_at(binary):
    for made in (of_old_way, of_new_way):
        with Origin() as origin, told_server(binary, origin) as server:
            for n, title in enumerate(('A', 'Moved', 'Silent', 'Gone')):
                origin.page(title, (100 + n, 'an old text'), (200 + n, 'text'))
                eq((status(server, title), status(server, title, 100 + n)), (200, 200))

            def move(title, origin=origin, made=made):
                origin.pages[title + '_to'] = origin.pages.pop(title)
                return [made('move', title + '_to', origin.pages[title + '_to'][-1].rev, title)]
            events = move('Moved')      # which do not name the redirect, or not its revision
            origin.page('Moved', (900, '#REDIRECT [[Moved to]]'))
            origin.touched['Moved'] = now(-1)
            told(server, events)
            eq((status(server, 'Moved'), status(server, 'Moved_to')), (302, 200))
            asked = origin.count('words')
            eq(status(server, 'Moved'), 302)
            eq(origin.count('words'), asked, 'the word has heard of it')
            told(server, move('Silent'))
            eq((status(server, 'Silent'), status(server, 'Silent_to')), (404, 200))
            gone = origin.pages['Gone']
            origin.delete('Gone')
            told(server, [made('delete', 'Gone', 203)])
            eq(status(server, 'Gone'), 404)
            origin.pages['Gone'] = gone
            told(server, [made('undelete', 'Gone', 203)])
            eq(status(server, 'Gone'), 200)
            origin.hide('A', 100)
            origin.touched['A'] = now(-1)
            told(server, [made('visibility_change', 'A', 100)])
            eq((status(server, 'A', 100), status(server, 'A')), (410, 200))


@scene
def moves_deletions_and_hidden_texts(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        for title in ('A', 'B', 'C', 'D'):
            origin.page(title, (ord(title), f'secret of {title}'), (ord(title) + 100, f'latest of {title}'))
            read(server, title)
            read(server, title, ord(title))
        origin.pages['E'] = origin.pages.pop('A')
        told(server, event('mediawiki.page-move', page_title='E', rev_id=ord('A') + 100, dt=now(),
                           prior_state={'page_title': 'A', 'rev_id': 2}))
        eq(server.request('GET', path('html', 'A')).status, 404)
        check(b'latest of A' in read(server, 'E'), 'moved')
        origin.delete('B')
        told(server, event('mediawiki.page-delete', page_title='B', rev_id=ord('B') + 100, dt=now()))
        eq(server.request('GET', path('html', 'B')).status, 404)
        origin.hide('C', ord('C'))
        origin.touched['C'] = now()
        told(server, event('mediawiki.revision-visibility-change', page_title='C', rev_id=ord('C'), dt=now()))
        eq(server.request('GET', path('html', 'C', ord('C'))).status, 410)
        origin.delete('D')
        told(server, page_change('delete', 'D', ord('D') + 100))
        eq(server.request('GET', path('html', 'D', ord('D'))).status, 404)


def of_nobody(sent):
    """What is suppressed is told without who did it, and why."""
    return {name: value for name, value in sent.items() if name not in ('performer', 'comment', 'parsedcomment')}


@scene
def what_is_suppressed_is_looked_at_at_once(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        for number, title in enumerate('ABCD'):
            origin.page(title, (10 + number, f'secret of {title}'), (20 + number, f'latest of {title}'))
            origin.touched[title] = now(-60)
            for rev in (None, 10 + number):
                read(server, title, rev)
                read(server, title, rev)        # a ready answer
        asked = origin.count('words')
        origin.delete('A')
        told(server, as_sent('mediawiki.page-suppress', 'A', rev_id=20))
        wait_until(lambda: origin.count('words') > asked, 'nobody reads it')
        origin.delete('B')
        told(server, of_nobody(as_sent('mediawiki.page-suppress', 'B', rev_id=21)))
        origin.delete('C')
        told(server, of_nobody(page_change('delete', 'C', 22)))
        for number, title in enumerate('ABC'):
            eq((status(server, title), status(server, title, 10 + number)), (404, 404), title)
        origin.hide('D', 13)
        origin.touched['D'] = now()
        told(server, of_nobody(as_sent('mediawiki.revision-visibility-change', 'D', rev_id=13,
                                       visibility={'text': False, 'user': False, 'comment': False}, prior_state={'visibility': {
                                           'text': True, 'user': True, 'comment': True}})))
        eq((status(server, 'D', 13), status(server, 'D')), (410, 200))
        eq(figure(server, 'change_events_total{named="title"}'), 4)


@scene
def what_banners_tell_is_taken_and_asks_nothing(binary):
    """Campaigns name no page but the special one where they are kept."""
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (7, 'text'))
        origin.page('B', (8, 'text'))
        for title in 'AAB':
            text = read(server, title)
        asked = dict(origin.calls)
        for where in ('http://wiki.test/w/index.php?title=Special:CentralNotice&subaction=noticeDetail&notice=A',
                      'http://wiki.test/wiki/Special:CentralNotice?subaction=noticeDetail&notice=A'):
            sent = [as_sent(f'mediawiki.centralnotice.campaign-{kind}', uri=where, campaign_name='A', summary='A', **SETTINGS,
                            prior_state=SETTINGS) for kind in ('create', 'change', 'delete')]
            told(server, *sent)
            told(server, *sent, target=HASTY, status=202)
        eq(figure(server, 'change_events_total{named="title"}') + figure(server, 'change_events_total{named="other"}'), 12)
        for _ in range(3):
            read(server)
        eq(dict(origin.calls), asked, 'nobody was asked')
        told(server, as_sent('mediawiki.page-links-change', 'B'))       # in the order of events
        wait_until(lambda: origin.calls != asked, 'looked at')
        eq({name: n - asked.get(name, 0) for name, n in origin.calls.items() if n != asked.get(name, 0)}, {'words': 1})
        eq(read(server, 'B'), text)


@scene
def a_word_that_has_not_heard_of_it_is_not_trusted(binary):
    with Origin() as origin, told_server(binary, origin, '--set', 'domains.localhost.origin.check_wait=300ms') as server:
        origin.page('A', (7, 'before'))
        read(server)
        told(server, event('mediawiki.revision-create', page_title='A', rev_id=8))
        asked = wait_until(lambda: origin.count('words'), 'asked at once')
        check(b'before' in read(server), 'it lags: nothing better can be had')
        edit(origin, 'A', 'after')      # the copy has caught up
        server.clock(advance='1100ms')
        wait_until(lambda: origin.count('words') > asked, 'asked again')
        check(b'after' in read(server), 'heard')
        for seconds in (1, 5, 30):      # a forged one is believed in the end not to be true
            if seconds == 1:
                told(server, event('mediawiki.revision-create', page_title='A', rev_id=10**15))
            asked = origin.count('words')
            server.clock(advance=f'{seconds}s')
            wait_until(lambda: origin.count('words') > asked, f'asked after {seconds} s')  # pylint: disable=cell-var-from-loop
        asked = origin.count('words')
        check(b'after' in read(server), 'as it is')
        eq(origin.count('words'), asked, 'trusted')


@scene
def forged_twice_late_and_for_what_is_not_there(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (7, 'text'))
        read(server)
        made = origin.count('render')
        same = event('mediawiki.revision-create', page_title='A', rev_id=7)
        told(server, *[same] * 50)
        told(server, event('mediawiki.page-delete', page_title='A', rev_id=7, dt='2020-01-01T00:00:00Z'))
        told(server, event('mediawiki.revision-create', page_title='A', rev_id=3))
        told(server, event('mediawiki.page-move', page_title='X', prior_state={'page_title': 'A'},
                           new_redirect_page={'page_title': 'A', 'rev_id': 7}, rev_id=1))
        check(b'text' in read(server), 'as it was')
        eq(origin.count('render'), made, 'nothing was made anew')
        check(origin.count('words') <= 8, f'asked together: {origin.count("words")}')
        told(server, *[event('mediawiki.revision-create', page_title=f'Unknown_{i}', rev_id=i + 1) for i in range(200)])
        told(server, event('mediawiki.revision-create', 'nobody.test', page_title='A', rev_id=9),
             event('mediawiki.revision-create', None, database='nobody', page_title='A', rev_id=9),
             event('test.event', None), event('mediawiki.page-create', page_title='..', rev_id=1),
             event('mediawiki.page-create', page_title='x' * 5000, rev_id=1), event('x', page_title=7),
             event('x', page_title=None), event('mediawiki.revision-create', page_title='U', rev_id=-1),
             {'meta': {'stream': 'x', 'uri': 'http://[', 'dt': 'never'}})
        wait_figure(server, 'looks_unknown_total', 201)
        asked = [target for kind, target, *_ in origin.seen if kind == 'words']
        check(asked and all('titles=%1FA' in target or 'titles=%1FX' in target for target in asked), asked)


@scene
def what_never_comes_true_holds_up_no_edit(binary):
    """Nor does a reader, or an editor, wait for it as for a wiki that is away."""
    wait_s = 8
    lies = [event('mediawiki.revision-create', page_title='A', rev_id=2**63 - 1),
            event('mediawiki.page-delete', page_title='A', dt='2199-01-01T00:00:00Z')]
    for lie in lies:
        with Origin() as origin, told_server(binary, origin, '--set', f'domains.localhost.origin.check_wait={wait_s}s') as server:
            origin.page('A', (7, 'before'))
            read(server)
            asked = origin.count('words')
            told(server, lie)
            wait_until(lambda: origin.count('words') > asked, 'asked')  # pylint: disable=cell-var-from-loop
            for query in ('', '?stash=true'):
                began = time.monotonic()
                answer = server.request('GET', path('html', 'A') + query)
                eq(answer.status, 200)
                check('detail=checked' in answer.headers['cache-status'], answer.headers)
                check(time.monotonic() - began < wait_s / 2, 'nobody waits for what does not come')
            edit(origin, 'A', 'after')
            told(server, event('mediawiki.page-links-change', page_title='A'))
            began = time.monotonic()
            check(b'after' in read(server), 'what the wiki shows counts')
            told(server, lie)
            check(b'after' in read(server), 'and stays')
            check(time.monotonic() - began < wait_s / 2, 'at once')


@scene
def a_page_deleted_before_its_edit_was_heard_of_is_gone_at_once(binary):
    """No word will ever reach the revision that was told. A page that the wiki has named for 36 s is not new to any copy of
    its database: that it is missing is no lag."""
    with Origin() as origin, told_server(binary, origin) as server:
        origin.ahead = -40
        for title, rev in (('A', 7), ('B', 17)):
            origin.page(title, (rev, 'libel'))
            origin.touched[title] = now(-40)
            read(server, title)
            read(server, title, rev)
        origin.ahead = 0
        origin.page('C', (27, 'just made'))
        origin.touched['C'] = now()
        read(server, 'C')
        then = origin.copy()
        for title in 'ABC':
            origin.delete(title)
        told(server, event('mediawiki.revision-create', page_title='A', rev_id=8))
        for where in (('A',), ('A', 7)):
            eq(server.request('GET', path('html', *where)).status, 404)
        # The event of the deletion names the last revision, too, and is reached.
        told(server, event('mediawiki.revision-create', page_title='B', rev_id=18))
        told(server, event('mediawiki.page-delete', page_title='B', rev_id=18, dt=now()))
        eq(server.request('GET', path('html', 'B')).status, 404)
        # What was made less than 36 s ago may be missing in a copy.
        told(server, event('mediawiki.revision-create', page_title='C', rev_id=28))
        answer = get(server, 'C')
        check('detail=unchecked' in answer.headers['cache-status'], answer.headers)
        server.clock(advance='37s')
        wait_until(lambda: server.request('GET', path('html', 'C')).status == 404, 'believed')
        # It was restored meanwhile, and the copy had not heard of that: it is asked again a second later.
        with origin.answering(then):
            told(server, event('mediawiki.page-undelete', page_title='A', rev_id=7))
            server.clock(advance='1s')
            wait_until(lambda: server.request('GET', path('html', 'A')).status == 200, 'it is back')


@scene
def what_is_no_event_is_told(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        good = event('mediawiki.revision-create', page_title='A', rev_id=7)
        job = event('mediawiki.job.refreshLinks', type='refreshLinks')
        bad = {'meta': {'id': 'x'}, 'page_title': 'A', 'z': [1, 1.50, '\u00e9'], 'a': {}}
        reply = told(server, good, bad, status=207)
        eq(reply['error'], [])
        eq([item['event'] for item in reply['invalid']], [bad])
        check('meta.stream' in reply['invalid'][0]['error'], reply)
        raw = server.request('POST', EVENTS, {'Content-Type': 'application/json; charset=utf-8'},
                             b'[ {"z":1.50, "a" : 1} ]')
        eq(raw.status, 400)
        check(b'{"z":1.50, "a" : 1}' in raw.body, 'told as it came')
        eq([item['event'] for item in told(server, job, status=400)['invalid']], [job])
        eq(len(told(server, job, 7, 'text', None, [], status=400)['invalid']), 5)
        told(server, job, good, target=HASTY, status=202)
        told(server, job, target=HASTY, status=202)
        for body in (b'', b'[]', b'{', b'7', b'"x"', b'null', b'{"meta":{"stream":"a"}} x', b'\xff\xfe', b'[{},]',
                     b'{"meta":{"stream":"\xff"}}', b'[' * 300 + b']' * 300):
            for target in (EVENTS, HASTY):
                eq(server.request('POST', target, {'Content-Type': 'application/json'}, body).status, 400, repr(body[:20]))
        for kind in ('text/plain', 'application/x-www-form-urlencoded', None):
            answer = server.request('POST', EVENTS, {'Content-Type': kind} if kind else {}, json.dumps(good))
            eq(answer.status, 400, kind)
        eq(server.request('GET', EVENTS).status, 405)
        coded = server.request('POST', EVENTS, {'Content-Type': 'application/json', 'Content-Encoding': 'gzip'},
                               gzip.compress(json.dumps(good).encode()))
        eq(coded.status, 201)
        eq(figure(server, 'change_events_total{named="invalid"}'), 10)


@scene
def a_body_of_ten_mib_and_no_more(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        head = {'Content-Type': 'application/json'}
        one = json.dumps(event('mediawiki.revision-create', page_title='A', rev_id=7)).encode()
        full = b'[' + one + b',' + b' ' * (TEN_MIB - 2 * len(one) - 3) + one + b']'
        eq(len(full), TEN_MIB)
        eq(server.request('POST', EVENTS, head, full).status, 201)
        eq(server.request('POST', EVENTS, head, full + b' ').status, 413)
        eq(server.request('POST', EVENTS, {**head, 'Content-Encoding': 'gzip'}, gzip.compress(full + b' ')).status, 413)
        eq(server.request('POST', EVENTS, head, b'[' + b'1,' * (5 << 20) + b'1]').status, 413)
        eq(server.request('POST', EVENTS, head, b'[' + b'1,' * 20000 + b'1]').status, 400)
        eq(server.request('POST', EVENTS, head, b'[' + b'{},' * 49999 + b'{}]').status, 400)


@scene
def events_of_many_wikis_are_taken_in_time(binary):
    names = [f'd{i}' for i in range(400)]
    options = ['--set', 'change.databases=' + ','.join(f'{name[1:]}={name}' for name in names)]
    for name in names:
        options += ['--set', f'domains.{name}.origin.url=http://127.0.0.1:9/rest.php']
    with Origin() as origin, told_server(binary, origin, *options) as server:
        # as many as it takes to be late when each event looks at every pair of a domain and a database
        many = [{**event('mediawiki.revision-create', domain=None, page_title=f'A{i}', rev_id=7), 'database': '399'}
                for i in range(20000)]
        told(server, *many)
        eq(figure(server, 'change_events_total{named="title"}'), 20000)


@scene
def a_large_body_holds_up_nobody(binary):
    many = [event('mediawiki.revision-create', page_title=f'A{i}', rev_id=7) for i in range(25000)]
    body = json.dumps(many).encode()
    with Origin() as origin, told_server(binary, origin, '--set', 'http.threads=1') as server:
        head = f'POST {EVENTS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n'
        eq(server.request('GET', '/localhost/v1/page/history/A').status, 404)
        with socket.create_connection(('127.0.0.1', server.port)) as peer:
            peer.sendall(head.encode() + body[:-1])
            eq(server.request('GET', '/localhost/v1/page/history/A').status, 404)     # all of it was read but the end
            peer.sendall(body[-1:])
            meanwhile = 0
            while not select.select([peer], [], [], 0)[0]:
                eq(server.request('GET', '/localhost/v1/page/history/A').status, 404)
                meanwhile += 1
            check(peer.recv(100).startswith(b'HTTP/1.1 201'), 'taken')
        least = 5 if differs('each answer takes a round trip') else 30
        check(meanwhile > least, f'{meanwhile} answers of the only worker meanwhile')


@scene
def a_page_of_another_site_may_not_and_who_has_no_right(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        good = event('mediawiki.revision-create', page_title='A', rev_id=7)
        for headers in ({'Origin': 'http://evil.test'}, {'Sec-Fetch-Site': 'cross-site'}):
            eq(server.json('POST', EVENTS, headers, good).status, 403, headers)
        eq(figure(server, 'change_events_total{named="title"}'), 0)
    with tempfile.TemporaryDirectory() as folder:
        data = folder + '/data'
        shared_store.make(binary, data)

        def token(*args):
            return subprocess.run([binary, 'token', *args, *shared_store.found(data, folder)], capture_output=True,
                                  text=True, timeout=60, check=True).stdout.strip()
        keys = {role: token('create', '--role', role, '--name', role, *(['--new'] if role == 'admin' else []))
                for role in ('admin', 'write', 'read', 'purge')}
        token('lock')
        with Server(binary, '--set', 'auth=internal', data=data) as server:
            eq(server.json('POST', EVENTS, body=good).status, 401)
            for role, want in (('admin', 201), ('write', 201), ('read', 403), ('purge', 403)):
                eq(server.json('POST', EVENTS, {'Authorization': f'Bearer {keys[role]}'}, good).status, want, role)


@scene
def a_wiki_that_is_away_is_no_reason_to_wait(binary):
    with Origin() as origin, told_server(binary, origin) as server:
        origin.page('A', (7, 'before'))
        read(server)
        origin.fault('words', status_of(503, retry_after='1'))
        told(server, event('mediawiki.revision-create', page_title='A', rev_id=8))
        wait_until(lambda: origin.count('words'), 'asked')
        origin.fault('words', None)
        edit(origin, 'A', 'after')

        def after():
            return b'after' in read(server)
        wait_until(after, 'it is not trusted until the wiki was asked')


main()
