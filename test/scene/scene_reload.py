"""Goal: a SIGHUP takes over what the manual says, at once and as a restart would, and all of it or nothing.
Method: the real binary with a file that changes under it, a moved clock, an origin and generators of the scene."""
from change_help import Client
from harness import Server, check, eq, main, scene, wait_until
from page_help import path as page_path
from reload_help import Reloaded


RULES = """change:
  rules:
    jobs: { match: { stream: "mediawiki.job.*" }, effect: job, targets: ["http://127.0.0.1:1/run"] }
    hook: { match: { stream: %s }, effect: drop }
%s"""


@scene
def a_bad_rule_changes_nothing_and_is_named(binary):
    with Reloaded(binary, RULES % ('x', '')) as r:
        said = r.reload(RULES % ('y', '    bad: { match: { stream: x }, effect: fly }\n'
                                      '    worse: { effect: look }\nlog: { level: debug }\n'), 'reload.refused', 2)
        eq(len(said), 2, said)
        check(f'{r.file}:5: bad: effect ' in said[0], said)
        check(f'{r.file}:6: worse: match is missing' in said[1], said)
        said = r.reload(RULES % ('x', ''))
        eq(said, ['reload.done changed=0 needs_restart=0'], 'it was as it had been')
        eq(r.server.request('GET', '/healthz').status, 200)
        said = r.reload(RULES % ('y', 'page: { grace_ttl: soon }\n'), 'reload.refused')
        check('page.grace_ttl' in said[0], said)
        eq(r.reload(RULES % ('x', '')), ['reload.done changed=0 needs_restart=0'])


@scene
def rules_that_differ_are_told_one_by_one(binary):
    with Reloaded(binary, RULES % ('x', '')) as r:
        said = r.reload(RULES % ('y', '    new: { match: { stream: x }, effect: http, url: "http://127.0.0.1:1/",\n'
                                      '           concurrency_of: { domain: { other.test: 1 } } }\n'))
        eq(sorted(line for line in said if 'changed option' in line),
           ['reload.changed option=change.rules.hook how=changed', 'reload.changed option=change.rules.new how=added'])
        check('reload.doubt' in said[0] and 'other.test' in said[0], said)
        eq(said[-1], 'reload.done changed=2 needs_restart=0')
        said = r.reload('change: { retention: 7d }\n')
        eq(sorted(said[:-1]), [f'reload.changed option=change.rules.{name} how=removed' for name in ('hook', 'jobs', 'new')])
        said = r.reload(RULES % ('x', ''))
        eq(said[-1], 'reload.done changed=2 needs_restart=0')


def put(server, title, rev):
    eq(server.request('PUT', page_path('html', title, rev), {'Content-Type': 'text/html'}, b'x').status, 201)


WANTS = 'change: { %srules: { r: { match: { stream: "%s", domain: en.test }, effect: %s } } }\n'


@scene
def the_store_tells_what_a_rule_may_want(binary):
    with Reloaded(binary, WANTS % ('', 'palimpsest.*', 'drop')) as r, \
            Client(r.server, '/v1/stream?stream=palimpsest.*') as client:
        put(r.server, 'A', 1)       # what is dropped is not wanted
        r.reload(WANTS % ('', 'palimpsest.render', 'look'))
        put(r.server, 'B', 1)
        eq(client.next()[2]['page_title'], 'B')
        r.reload(WANTS % ('', 'mediawiki.*', 'look'))
        put(r.server, 'C', 1)
        said = r.reload(WANTS % ('streams: [palimpsest.render], ', 'mediawiki.*', 'look'))
        check('reload.changed option=change.streams' in said, said)
        put(r.server, 'D', 1)
        eq(client.next()[2]['page_title'], 'D')
    with Reloaded(binary, WANTS % ('', 'palimpsest.render', 'look')) as r, Client(r.server) as client:
        put(r.server, 'A', 1)
        eq((client.next()[2]['meta']['stream'], r.lines()), ('palimpsest.render', []))


main()
