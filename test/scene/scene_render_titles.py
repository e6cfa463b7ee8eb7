"""Goal: titles as the wiki writes them, its redirects, negotiation of the specification's version, stashing. Method: a
server in front of a scripted origin."""
import json

from harness import check, eq, main, scene, wait_until
from origin import SPECS, Origin, cut, hang, status_of
from page_help import DAY, explain, get, history, http_date, instant, page_server, path, problem, tid
from render_help import FORGETFUL, NO_CACHE, ask_transform, name_of, origin_server
from several import one_server

ELSEWHERE = {'Origin': 'https://elsewhere.test'}


def html_accept(version):
    return {'Accept': f'text/html; charset=utf-8; profile="{SPECS}HTML/{version}"'}


@scene
def readers_are_sent_to_the_title_as_the_wiki_writes_it(binary):
    with Origin() as origin:
        origin.page('A_b', (7, 'new'))
        origin.page('User:X', (8, 'me'))
        origin.page('Talk:A/b?', (9, 'talk'))
        with origin_server(binary, origin) as server:
            moved = get(server, 'a%20b', status=301)
            eq((moved.headers['Location'], moved.body), ('A_b', b''))
            eq(moved.headers['Vary'], 'Origin')
            check('max-age=0' in moved.headers['Cache-Control'], moved.headers['Cache-Control'])
            eq(get(server, 'a%20b', 7, status=301, query='?redirect=false&x=y').headers['Location'],
               '../A_b/7?redirect=false&x=y')
            eq(get(server, 'talk:a%2Fb%3F', status=301).headers['Location'], 'Talk%3AA%2Fb%3F')
            eq(server.request('GET', '/localhost/v1/page/title/a%20b/7').headers['Location'], '../A_b/7')
            eq(origin.count('render'), 0)
            followed = get(server, 'A_b')
            eq(followed.headers['X-Restbase-Cache'], 'miss')
            for headers in (NO_CACHE, ELSEWHERE):   # they get the page all the same
                answer = get(server, 'a%20b', headers=headers)
                eq((answer.headers['Cache-Control'], b'>new</p>' in answer.body), ('no-cache', True))
                check('/html/A_b/7/' in answer.headers['Content-Location'], answer.headers['Content-Location'])
            eq(get(server, 'user%3Ax').headers['Cache-Control'], 'no-cache')
            for content in ('title', 'wikitext'):
                for title, headers in (('a%20b', NO_CACHE), ('a%20b', ELSEWHERE), ('user%3Ax', None)):
                    eq(get(server, title, content=content, headers=headers).headers['Cache-Control'], 'no-cache')
                check('max-age=0' in get(server, 'A_b', content=content).headers['Cache-Control'], 'under its own')
            for bad in ('A%5Bb', '%20', 'A%7Cb', 'A%3C'):
                problem(get(server, bad, status=400), 400, 'bad_request#invalid_title')
            for none in ('Special:Version', 'Media:A.png'):     # titles, but no pages
                for content in ('html', 'title', 'wikitext', 'lint'):
                    problem(get(server, none, content=content, status=404), 404, 'not_found')


@scene
def who_names_a_render_or_an_instant_is_sent_on_too(binary):
    with Origin() as origin:
        origin.page('A_b', (7, 'new'))
        origin.page('Talk:A', (8, 'talk'))
        origin.page('User:X', (9, 'me'))
        with origin_server(binary, origin) as server:
            name = name_of(get(server, 'A_b'))
            talk, user = name_of(get(server, 'Talk%3AA')), name_of(get(server, 'User%3AX'))
            server.clock(advance='1h')
            named, then, late = '/'.join(map(str, name)), f'?at={instant(1800)}', {'Accept-Datetime': http_date(1800)}
            for known in (True, False):
                if not known:
                    server.restart()    # and the rules of titles are asked for again
                eq(get(server, 'a%20b', *name, status=301).headers['Location'], f'../../A_b/{named}')
            eq(get(server, 'a%20b', *name, status=301, query='?stash=true').headers['Location'],
               f'../../A_b/{named}?stash=true')
            eq(get(server, 'a%20b', *name, status=301, content='data-parsoid').headers['Location'], f'../../A_b/{named}')
            eq(get(server, 'talk%3Aa', *talk, status=301).headers['Location'][:14], '../../Talk%3AA')
            eq(get(server, 'a%20b', status=301, query=then).headers['Location'], f'A_b{then}')
            eq(get(server, 'a%20b', status=301, headers=late).headers['Location'], 'A_b')
            for answer in (get(server, 'a%20b', *name, headers=ELSEWHERE), get(server, 'a%20b', *name, headers=NO_CACHE),
                           get(server, 'a%20b', query=then, headers=ELSEWHERE),
                           get(server, 'a%20b', headers={**late, **ELSEWHERE})):     # they get it all the same
                eq((name_of(answer), answer.headers['Cache-Control']), (name, 'no-cache'))
                check(f'/html/A_b/{named}' in answer.headers['Content-Location'], answer.headers['Content-Location'])
            eq(name_of(get(server, 'user%3Ax', *user)), user)
            problem(get(server, 'A_b', 7, tid(9), status=404), 404, 'not_found')
            problem(get(server, 'a%20b', 7, tid(9), headers=ELSEWHERE, status=404), 404, 'not_found')
            problem(get(server, 'a%20b', 7, tid(9), headers={'Cache-Control': 'only-if-cached'}, status=404), 404, 'not_found')
            problem(get(server, 'A%5Bb', *name, status=400), 400, 'bad_request#invalid_title')
            problem(get(server, 'A_b', query=f'?at={instant(-1800)}', status=404), 404, 'not_found')
            eq(origin.count('render'), 3)       # none was made for it
            origin.down()
            server.restart()
            eq(name_of(get(server, 'A_b')), name)       # what is stored needs no rules
            problem(get(server, 'A_b', *name, status=503), 503, 'origin_busy')  # is it hidden now? Nobody says
            problem(server.request('GET', path('html', 'a%20b', *name)), 502, 'origin_failed')   # not "no such render"


FAILURES = (status_of(503), status_of(302, location='http://127.0.0.1/'), status_of(429, retry_after='9'), status_of(500), cut)


def told(server, what):
    """The lines of the log about a wiki that does not say what it is asked about itself."""
    return [line for line in server.stderr().splitlines() if ' siteinfo.failed ' in line and f'what={what} ' in line]


@scene
@one_server('each server asks the wiki for its rules of titles')
def a_wiki_that_fails_keeps_the_rules_it_told(binary):
    with Origin() as origin:
        origin.aliases = {'WP': 4}
        origin.page('Project:A', (7, 'text'))
        options = origin.options('localhost', siteinfo_ttl='1s', retries=0)
        with page_server(binary, *options, *FORGETFUL) as server:
            def leads(alias, to):
                eq(get(server, f'{alias}%3Aa', status=301).headers['Location'], to)
            leads('wp', 'Project%3AA')
            for fault in FAILURES:
                origin.fault('siteinfo', fault)
                asked = origin.count('siteinfo')
                # Each look asks, once the last pause is over.
                wait_until(lambda: leads('wp', 'Project%3AA') or origin.count('siteinfo') > asked, 'the wiki is asked')
            [line] = wait_until(lambda: told(server, 'rules'), 'a line in the log')     # a minute, however many failures
            check('domain=localhost' in line and 'goes_on_with=what_was_known' in line and 'answered 503' in line, line)
            origin.fault('siteinfo', None)
            origin.aliases['NEW'] = 4
            wait_until(lambda: server.request('GET', path('html', 'new%3Aa')).status == 301, 'the rules are asked for again')
            leads('wp', 'Project%3AA')


@scene
@one_server('each server asks the wiki for its rules of titles')
def a_wiki_that_hides_its_transforms_tells_its_rules_all_the_same(binary):
    for fault in (*FAILURES, hang):
        with Origin() as origin:
            origin.aliases, origin.core_transforms = {'WP': 4}, True
            origin.page('Project:A', (7, 'text'))
            origin.fault('probe', fault)
            timeout = '1s' if fault is hang else '4m'
            options = origin.options('localhost', kind='rest', retries=0, siteinfo_ttl='1s', timeout=timeout)
            with page_server(binary, *options, *FORGETFUL) as server:
                eq(get(server, 'wp%3Aa', status=301).headers['Location'], 'Project%3AA')
                eq(get(server, 'Project%3AA').status, 200)
                refused = ask_transform(server)
                check(refused.status in (502, 503, 504), f'{refused.status} {refused.body}')
                [line] = wait_until(lambda: told(server, 'transforms'), 'a line in the log')
                check('goes_on_with=nothing' in line, line)
                origin.fault('probe', None)
                wait_until(lambda: ask_transform(server).status == 200, 'the wiki is asked again')
                origin.fault('probe', fault)
                probes = origin.count('probe')
                # Its last word holds.
                wait_until(lambda: eq(ask_transform(server).status, 200) or origin.count('probe') > probes, 'another probe')
                eq(ask_transform(server).status, 200)
                eq(told(server, 'rules'), [])


@scene
def a_title_that_is_normal_waits_for_nothing(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            get(server, 'A')
            server.restart()
            with origin.gate('siteinfo'):
                eq(get(server, 'A').headers['X-Restbase-Cache'], 'hit')


@scene
def the_wikis_redirects_lead_on(binary):
    with Origin() as origin:
        origin.page('R', (7, '#REDIRECT [[T_x/y#Part_1]]'))
        origin.page('Self', (8, '#REDIRECT [[Self]]'))
        origin.page('T_x/y', (9, 'the target'))
        with origin_server(binary, origin) as server:
            for cache in ('miss', 'hit'):
                answer = get(server, 'R', status=302)
                eq((answer.headers['Location'], answer.headers['X-Restbase-Cache']), ('T_x%2Fy#Part_1', cache))
                check(b'mw:PageProp/redirect' in answer.body, 'the page itself')
                check('Origin' in answer.headers['Vary'], answer.headers['Vary'])
            etag = answer.headers['ETag']
            rev, name = etag.strip('"').split('/')
            eq(get(server, 'R', headers={'If-None-Match': etag}, status=302).headers['Location'], 'T_x%2Fy#Part_1')
            eq(get(server, 'R', 7, status=302, query='?a=b').headers['Location'], '../T_x%2Fy?a=b#Part_1')
            for query in ('?redirect=false', '?redirect=false&stash=true'):
                plain = get(server, 'R', query=query)
                eq(plain.headers['Location'], None)
            eq(get(server, 'R', rev, name).status, 200)     # who names a render gets it
            eq(get(server, 'Self', status=302).headers['Location'], 'Self?redirect=false')
            follow = get(server, 'R', headers=ELSEWHERE)
            check(b'the target' in follow.body, follow.body)
            check('/html/T_x%2Fy/9/' in follow.headers['Content-Location'], follow.headers['Content-Location'])
            eq(follow.headers['Cache-Control'], 'no-cache')
            eq(get(server, 'Self', headers=ELSEWHERE, status=302).headers['Location'], 'Self?redirect=false')
            eq(get(server, 'R', status=302).headers['Location'], 'T_x%2Fy#Part_1')


@scene
def a_redirect_that_leads_nowhere_is_the_page_itself_to_scripts(binary):
    targets = {'S': 'Special:Search', 'M': 'Missing', 'D': 'S', 'I': 'Bad%5Btitle'}
    with Origin() as origin:
        for rev, (title, leads) in enumerate(targets.items(), 7):
            origin.page(title, (rev, f'#REDIRECT [[{leads}]]'))
        with origin_server(binary, origin) as server:
            for rev, title in enumerate(targets, 7):
                for cache in ('miss', 'hit'):
                    answer = get(server, title, headers=ELSEWHERE)
                    check(f'/revision/{rev}"'.encode() in answer.body, f'{title} itself: {answer.body}')
                    check(f'/html/{title}/{rev}/' in answer.headers['Content-Location'], answer.headers['Content-Location'])
                    eq(answer.headers['Location'], None)
                    eq(answer.headers['Cache-Control'], 'no-cache')
                    eq(answer.headers['X-Restbase-Cache'], cache)
                eq(get(server, title, status=302).headers['X-Restbase-Cache'], 'hit')
            eq(get(server, 'M', headers={**ELSEWHERE, 'Cache-Control': 'no-cache'}).headers['X-Restbase-Cache'], 'nocache')
            server.restart()                                        # the rules of titles are to be asked for again
            check(b'/revision/7"' in get(server, 'S', headers=ELSEWHERE).body, 'S itself')


@scene
def the_version_of_the_specification_is_negotiated(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin) as server:
            first = get(server, 'A', headers=html_accept('2.4.0'))
            check('HTML/2.6.0' in first.headers['Content-Type'], 'what there is satisfies')
            get(server, 'A')
            get(server, 'A')    # ready for all now
            problem(get(server, 'A', headers=html_accept('1.6.0'), status=406), 406, 'not_acceptable')
            problem(get(server, 'A', headers=html_accept('2.8.0'), status=406), 406, 'not_acceptable')
            eq(origin.count('render'), 1)   # it is young
            server.clock(advance='121s')
            problem(get(server, 'A', headers=html_accept('2.8.0'), status=406), 406, 'not_acceptable')
            eq(origin.count('render'), 2)
            problem(get(server, 'A', headers=html_accept('1.6.0'), status=406), 406, 'not_acceptable')
            eq(get(server, 'A', headers={'Accept': html_accept('1.6.0')['Accept'] + ', */*;q=0.1'}).status, 200)
            name = first.headers['ETag'].strip('"').split('/')
            eq(get(server, 'A', *name, content='data-parsoid', headers=html_accept('1.6.0')).status, 200)


@scene
def a_stash_pins_what_was_made(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin, '--set', 'page.stash_ttl=3d') as server:
            answer = get(server, 'A', query='?redirect=false&stash=true')
            eq((answer.headers['Cache-Control'], answer.headers['X-Restbase-Cache']), ('no-cache', 'miss'))
            told = explain(server, 'A', 7)
            eq([hold['until'] for hold in told['holds'] if hold['kind'] == 'stash'], [instant(3 * DAY)])
            origin.stamp = ' changed'
            get(server, 'A', headers=NO_CACHE)
            server.clock(advance='2d')
            name = answer.headers['ETag'].strip('"').split('/')
            eq(get(server, 'A', *name).body, answer.body)


def ask_stash(server, **fields):
    return server.request('GET', path('html', 'A') + '?stash=true',
                          {name.replace('_', '-'): value for name, value in fields.items()})


def until_refused(server, fields_of):
    """The answers, up to the first 429: with one a second, of the first two that are less than a second apart."""
    answers = []
    for i in range(50):
        answers.append(ask_stash(server, **fields_of(i)))
        if answers[-1].status == 429:
            break
    return answers


def paced(server, fields_of, what):
    statuses = [answer.status for answer in until_refused(server, fields_of)]
    eq((statuses[0], set(statuses)), (200, {200, 429}), what)


@scene
def stashing_from_one_public_address_is_paced(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin, '--set', 'page.stash_per_s_max=1',
                           '--set', 'http.trusted_proxies=192.0.2.0/24,127.0.0.1') as server:
            get(server, 'A')
            answers = until_refused(server, lambda i: {'X_Client_IP': '203.0.113.9'})
            eq(answers[0].status, 200)
            problem(answers[-1], 429, 'request_rate_exceeded')
            eq(answers[-1].headers['Retry-After'], '1')
            eq(ask_stash(server, X_Client_IP='203.0.113.10').status, 200)
            eq({ask_stash(server).status for _ in range(10)}, {200})            # the wiki itself asks for many
            for others in (('10.1.2.3',), ('127.0.0.1', '::ffff:127.0.0.1'), ('2001:db8::1', '2001:db8::2'), ('none', 'such')):
                paced(server, lambda i, others=others: {'X_Client_IP': others[i % len(others)]}, f'{others}')
            paced(server, lambda i: {'X_Forwarded_For': f'10.0.0.{i}, 203.0.113.20, 192.0.2.9'},
                  'what stands before the last that is no proxy of ours anybody may have written')
            eq({ask_stash(server, X_Forwarded_For=f'203.0.113.{i}, 192.0.2.9').status for i in range(30, 50)}, {200})


@scene
def a_field_of_the_clients_own_beside_the_proxys_is_no_way_around_the_pace(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        with origin_server(binary, origin, '--set', 'page.stash_per_s_max=1',
                           '--set', 'http.trusted_proxies=127.0.0.1') as server:
            get(server, 'A')
            paced(server, lambda i: {'X_Forwarded_For': '203.0.113.9', 'X_Client_IP': f'198.51.100.{i}'}, 'its address')
            paced(server, lambda i: {'X_Client_IP': '203.0.113.10', 'X_Forwarded_For': f'198.51.101.{i}'}, 'its path')
            same = ask_stash(server, X_Client_IP='203.0.113.11', X_Forwarded_For='::ffff:203.0.113.11')
            eq(same.status, 200, 'who is named twice is one')


@scene
def a_proxy_that_is_not_trusted_is_one_client(binary):
    with Origin() as origin:
        origin.page('A', (7, 'new'))
        for trusted in ((), ('--set', 'http.trusted_proxies=192.0.2.7')):
            with origin_server(binary, origin, '--set', 'page.stash_per_s_max=1', *trusted) as server:
                get(server, 'A')
                for field in ('X_Client_IP', 'X_Forwarded_For'):
                    answers = until_refused(server, lambda i, field=field: {field: f'203.0.113.{i}'})
                    eq(answers[-1].status, 429, f'{trusted} {field}')


@scene
def metadata_wikitext_and_lint_come_from_the_wiki(binary):
    with Origin() as origin:
        origin.page('A', (7, 'seven'), (9, 'nine'))
        origin.hide('A', 9)
        origin.page('A', (7, 'seven'), (8, 'eight'))
        with origin_server(binary, origin) as server:
            status, headers, value = server.json('GET', path('title', 'A'))
            eq((status, value['count'], headers['ETag']), (200, 1, '"8"'))
            item = value['items'][0]
            eq({name: item[name] for name in ('title', 'rev', 'tid', 'namespace', 'user_text', 'comment', 'tags', 'redirect')},
               {'title': 'A', 'rev': 8, 'tid': None, 'namespace': 0, 'user_text': 'Alice', 'comment': 'edit 8',
                'tags': ['visualeditor'], 'redirect': False})
            etag = get(server, 'A').headers['ETag']
            status, headers, value = server.json('GET', path('title', 'A', 8))
            eq((headers['ETag'], '"' + value['items'][0]['tid'] + '"'), (etag, '"' + etag.split('/')[1]))
            eq(server.json('GET', path('title', 'A', 7)).body['items'][0]['rev'], 7)
            problem(server.request('GET', path('title', 'Missing')), 404, 'not_found')
            wikitext = get(server, 'A', 7, content='wikitext')
            eq((wikitext.body, wikitext.headers['Content-Type'].split(';')[0]), (b'seven', 'text/plain'))
            eq(get(server, 'A', content='wikitext').body, b'eight')
            lint = server.json('GET', path('lint', 'A'))
            eq(lint.body[0]['type'], 'obsolete-tag')
            eq(history(server, 'A')['items'][0]['bytes'].keys(), {'html', 'data-parsoid'})
        with page_server(binary) as server:
            problem(server.request('GET', path('wikitext', 'A')), 404, 'not_found#content')


@scene
@one_server('each server asks the wiki for its rules of titles')
def metadata_of_what_is_stored_outlives_the_wiki(binary):
    with Origin() as origin:
        origin.page('A_b', (7, 'seven'), (8, 'eight'))
        with origin_server(binary, origin, *FORGETFUL) as server:
            rendered = get(server, 'A_b').headers['ETag']
            def ask(title, rev=None, **headers):
                named = {name.replace('_', '-'): value for name, value in headers.items()}
                return server.request('GET', path('title', title, rev), named)
            check(ask('A_b').headers['Warning'] is None, 'the wiki is there')
            asked = origin.count('meta')
            cached = ask('a%20b', Cache_Control='only-if-cached')
            eq((cached.status, cached.headers['ETag'], cached.headers['Warning']), (200, rendered, None))
            problem(ask('Other', Cache_Control='only-if-cached'), 504, 'not_cached')
            problem(server.request('GET', path('wikitext', 'A_b'), {'Cache-Control': 'only-if-cached'}), 504, 'not_cached')
            eq(origin.count('meta'), asked)
            origin.down()
            for title, rev in (('A_b', None), ('A_b', 8)):
                stale = ask(title, rev)
                eq((stale.status, stale.headers['ETag']), (200, rendered), stale.body)
                eq(stale.headers['Cache-Status'], 'palimpsest; hit; fwd=miss; detail=stale-error')
                eq(stale.headers['Warning'], '111 palimpsest "Revalidation Failed"')
                item, = json.loads(stale.body)['items']
                eq((item['title'], item['rev'], item['tid'], item['user_text'], item['timestamp']),
                   ('A_b', 8, rendered.strip('"').split('/')[1], None, None))
            problem(ask('A_b', 7), 502, 'origin_failed')        # no render of it is stored
            problem(ask('Missing'), 502, 'origin_failed')
            problem(ask('A_b', Cache_Control='stale-if-error=0'), 502, 'origin_failed')
            problem(server.request('GET', path('wikitext', 'A_b')), 502, 'origin_failed')
            server.restart()    # and the rules of titles are not known any more
            eq(ask('A_b').headers['ETag'], rendered)
            server.clock(advance='8d')
            problem(ask('A_b'), 502, 'origin_failed')           # page.stale_if_error


main()
