"""Goal: nothing of a wiki is served older than stated, whoever told of it: here nobody does. Method: a real MediaWiki
behind two servers that share a Redis, each change of a page that a wiki knows, and after the bounds both servers' answers
to all pages beside Parsoid's own. Bounds are options (trust_ttl, trust_max), and small here."""
import time

from rig import SETTLE, TRUST_MAX, Pair, another_second, scene
from changes import FRESH, Behind, changes_of, pages_of
from harness import SceneError, check, eq, main, wait_until


def hidden_by_number(behind, t, names):
    """Both servers refuse the revision, its exact render and all that belongs to it."""
    for name in ('Hidden', 'Suppressed'):
        rev, tid = t[f'{name} rev'], names[t[name]]
        for server, own in zip(behind.servers, tid):
            for content, where in (('html', {}), ('data-parsoid', {}), ('html', {'tid': own}), ('data-parsoid', {'tid': own}),
                                   ('wikitext', {})):
                answer = behind.get(server, content, t[name], rev=rev, **where)
                check(answer.status in (403, 410), f'{name}: {content} {where}: {answer.status}')


@scene
def whatever_changes_on_the_wiki_is_right_on_both_servers_within_the_bounds(binary):
    with Behind(binary) as behind:
        t = pages_of(behind)
        # Renders made so soon after their page was touched are made once more: not what is looked at here.
        time_of_words = time.time()
        wait_until(lambda: time.time() > time_of_words + SETTLE, 'the wiki has come to rest')
        stored, names = [title for name, title in t.items() if name[0].isupper() and '_' in title and ':' not in title
                         and not title.endswith('.png') and name != 'Link'], {}
        for title in stored:
            answers = behind.read(title, query='?redirect=false')
            names[title] = [answer.headers['etag'].split('/')[-1].strip('"') if answer.status == 200 else None for answer in answers]
        print(f'| change on MediaWiki {behind.wiki.mediawiki.version()} | until both servers are right, s |\n| --- | ---: |', flush=True)
        late = []
        for what, make, changed in changes_of(behind, t):
            for name in changed:
                behind.read(t[name])        # trusted at this moment: the worst one
            make()
            try:
                took = max(behind.wait_true(t[name]) for name in changed)
                print(f'| {what} | {took:.1f} |', flush=True)
            except SceneError as failure:
                late.append(f'{what}: {failure}')
                print(f'| {what} | never |', flush=True)
        eq(late, [])
        hidden_by_number(behind, t, names)
        for name in ('Deleted', 'Made anew'):
            for server, own in zip(behind.servers, names[t[name]]):
                answer = behind.get(server, 'html', t[name], rev=1, tid=own)
                check(answer.status in (404, 410), f'{name}: {answer.status}')


@scene
def after_all_that_every_page_is_as_the_wiki_has_it(binary):
    with Behind(binary) as behind:
        titles = behind.wiki.titles()
        for title in titles:
            behind.read(title, query='?redirect=false')
        last = time.monotonic()
        wait_until(lambda: time.monotonic() > last + TRUST_MAX + SETTLE, 'trust is over', timeout=FRESH)
        for title in titles:
            truth = behind.truth(title)
            for answer in behind.read(title, query='?redirect=false'):
                check(behind.is_true(answer, truth), f'{title}: {answer.status} {answer.headers["cache-status"]}')


@scene
def a_page_that_is_gone_is_gone_at_the_other_server(binary):
    """Which was told of an edit, or of a touch, that it never heard of itself. Whoever opens it there asks at once."""
    edit = '?redirect=false&stash=true'
    with Pair(binary, knowing=True) as pair:
        one, other = pair.servers
        wiki, run = pair.wiki, time.time_ns()
        for n, how in enumerate(('delete', 'move', 'template') * 2):
            title, template = f'Gone_{run}_{n}', f'Template:Gone_{run}_{n}'
            wiki.edit(template, 'first template')
            wiki.edit(title, '{{Gone_%d_%d}} first text' % (run, n))
            eq([answer.status for answer in pair.read(title)], [200, 200])
            another_second()
            if how == 'template':
                wiki.edit(template, 'second template')
                wait_until(lambda title=title: b'second template' in pair.get(one, 'html', title, query=edit).body, 'touched')
            else:
                wiki.edit(title, 'second text')
                check(b'second text' in pair.get(one, 'html', title, query=edit).body, 'the newest')
            if how == 'move':
                pair.do(action='move', noredirect=1, **{'from': title, 'to': title + '_to'})
            else:
                pair.do(action='delete', title=title)
            answer = pair.get(other, 'html', title, query=edit)
            eq(answer.status, 404, f'{how}: {answer.headers["Cache-Status"]}')
            eq(pair.get(one, 'html', title, query=edit).status, 404)

main()
