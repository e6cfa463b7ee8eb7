"""Goal: what the wiki says against a stored render holds for all who read it later, in every way and after a start,
and ends when the wiki says otherwise. Method: a server in front of a scripted origin whose pages are hidden, deleted
and brought back; the origin's calls are counted or its API is away, to tell what was answered from the store."""
from harness import check, eq, main, scene
from origin import Origin, status_of
from page_help import explain, get, history, path, problem
from render_help import JSON, NO_CACHE, name_of, origin_server

DENIED = (403, 'access_denied#revision')     # what is asked of the wiki itself
HIDDEN = (410, 'suppressed')


def refused(server, status, kind, *where, content='html', query='', headers=None):
    problem(server.request('GET', path(content, *where) + query, headers), status, kind)


def hidden_everywhere(server, status, kind, title, rev, tid):
    for content in ('html', 'data-parsoid'):
        refused(server, status, kind, title, rev, content=content)
        refused(server, status, kind, title, rev, tid, content=content)
        refused(server, status, kind, title, rev, tid, content=content, query='?stash=true')


@scene
def a_text_hidden_at_the_wiki_stays_hidden_until_it_is_shown_again(binary):
    for ask in (dict(content='html', headers=NO_CACHE), dict(content='title'), dict(content='wikitext')):
        with Origin() as origin:
            origin.page('A', (1, 'secret'), (7, 'new'))
            with origin_server(binary, origin) as server:
                rev, tid = name_of(get(server, 'A', 1))
                get(server, 'A', 1)
                origin.hide('A', 1)
                refused(server, *(HIDDEN if ask['content'] == 'html' else DENIED), 'A', 1, **ask)
                hidden_everywhere(server, *HIDDEN, 'A', rev, tid)
                eq(explain(server, 'A', rev, tid)['state'], 'suppressed')
                eq([r['state'] for r in history(server, 'A')['items']], ['suppressed'])
                server.restart()
                origin.fault('meta', status_of(500))
                refused(server, *HIDDEN, 'A', rev, tid)
                eq(server.request('GET', path('html', 'A', rev)).status, 502)
                origin.fault('meta', None)
                origin.page('A', (1, 'secret'), (7, 'new'))
                server.clock(advance='1s')
                get(server, 'A', 1, content='title', headers=NO_CACHE)
                eq(name_of(get(server, 'A', rev, tid)), (rev, tid))
                check(b'>secret<' in get(server, 'A', 1).body, 'shown again')
                eq(name_of(get(server, 'A'))[0], 7)


@scene
def a_page_deleted_at_the_wiki_is_gone_until_it_is_undeleted(binary):
    for ask in (dict(headers=NO_CACHE), dict(content='title')):
        with Origin() as origin:
            origin.page('A', (7, 'new'))
            with origin_server(binary, origin) as server:
                rev, tid = name_of(get(server, 'A', query='?stash=true'))
                pages = origin.pages['A']
                origin.delete('A')
                refused(server, 404, 'not_found', 'A', **ask)
                refused(server, 404, 'not_found', 'A')
                refused(server, 404, 'not_found', 'A', query='?stash=true')
                hidden_everywhere(server, 404, 'not_found', 'A', rev, tid)
                eq(explain(server, 'A')['state'], 'deleted')
                eq(server.json('GET', path('title', '')).body['items'], [])
                server.restart()
                refused(server, 404, 'not_found', 'A', rev, tid)
                body = b'{"html": "<p>typed</p>"}'
                saved = server.request('POST', f'/localhost/v1/transform/html/to/wikitext/A/{rev}',
                                       {**JSON, 'If-Match': f'"{rev}/{tid}"'}, body)
                check(saved.status != 404, f'what was typed is not lost: {saved.status} {saved.body}')
                origin.page('A', *[(r.rev, r.text) for r in pages])
                server.clock(advance='1s')
                eq(name_of(get(server, 'A')), (rev, tid))
                eq(name_of(get(server, 'A', rev, tid)), (rev, tid))
                eq(explain(server, 'A')['state'], 'current')
                eq([h['kind'] for h in explain(server, 'A')['holds']], ['stash'])


@scene
def a_page_made_anew_does_not_bring_back_what_was_deleted(binary):
    with Origin() as origin:
        origin.page('A', (7, 'libel'))
        with origin_server(binary, origin) as server:
            rev, tid = name_of(get(server, 'A'))
            origin.delete('A')
            refused(server, 404, 'not_found', 'A', headers=NO_CACHE)
            origin.page('A', (9, 'clean'))
            server.clock(advance='61s')
            eq(name_of(get(server, 'A'))[0], 9)
            refused(server, 404, 'not_found', 'A', rev)
            refused(server, 404, 'not_found', 'A', rev, tid)
            eq([r['state'] for r in history(server, 'A')['items']], ['current', 'deleted'])


@scene
def a_newest_revision_that_went_down_is_served_by_all(binary):
    for bad in (8, 2**63 - 1):
        with Origin() as origin:
            origin.page('A', (7, 'good'), (bad, 'vandal'))
            with origin_server(binary, origin) as server:
                rev, tid = name_of(get(server, 'A'))
                eq(rev, bad)
                origin.page('A', (7, 'good'))
                server.clock(resume=True)       # on a shared store it rests between the word and the render
                check(b'>good<' in get(server, 'A', headers=NO_CACHE).body, 'asked anew')
                check(b'>good<' in get(server, 'A').body, 'and from then on')
                good = name_of(get(server, 'A', query='?stash=true'))
                refused(server, 404, 'not_found', 'A', rev)
                refused(server, 404, 'not_found', 'A', rev, tid)
                server.restart()
                asked = origin.count('render')
                eq(name_of(get(server, 'A')), good)
                eq(origin.count('render'), asked)
                origin.page('A', (7, 'good'), (bad, 'vandal'))
                server.clock(resume=True)
                server.clock(advance='1m')
                eq(name_of(get(server, 'A', headers=NO_CACHE))[0], bad)
                eq(name_of(get(server, 'A'))[0], bad)
                eq(name_of(get(server, 'A', 7)), good)


main()
