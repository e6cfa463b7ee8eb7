"""Goal: the verbs of rules tell every fault by file, line and rule, and what rules would do with an event; and what
docs/rules.md shows is right. Method: files and events of the scene's own; no server runs."""
import json
import pathlib
import subprocess
import tempfile

from harness import check, eq, main, scene

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALL_TIMEOUT = 60

# As the outside surface has it, to the letter.
SURFACE = '''
    change: { retention: 7d, bytes_max: 1G, dedupe_window: 1h, purge_listen: "127.0.0.1:7233", databases: { enwiki: en.test },
      rules: { jobs: { match: { stream: "mediawiki.job.*" }, effect: job, targets: ["http://127.0.0.1:8080/w/rest.php/eventbus/v0/internal/job/execute"], concurrency: 4, concurrency_of: { type: { refreshLinks: 2 } },
                       timeout: 1m, retries: 2, backoff: 60s, backoff_factor: 6, collapse: sha1 },
               edge: { match: { stream: "palimpsest.render" }, effect: purge, targets: ["http://127.0.0.1:6081"], urls: ["/{domain}/v1/page/html/{title}"], edge_ttl: 1d },
               hook: { match: { all: [{ stream: "*" }, { domain: en.test }], not: [{ "meta.stream": "mediawiki.job.*" }] }, effect: http, url: "http://127.0.0.1:9000/{domain}/{title}", method: POST, body: event,
                       ok: [200, 201, 202, 204], ignore: [404, 412], retries: 5, backoff: 1s, on_failure: skip } } }
    domains: { en.test: { origin: { url: "http://127.0.0.1:8080/w/rest.php" } } }
'''
RENDER = {'meta': {'stream': 'palimpsest.render', 'domain': 'en.test'}, 'bucket': 'page', 'page_title': 'A b/c', 'rev_id': 7,
          'tid': '6f0e9c9a-0000-1000-8000-000000000000'}


class Verbs:
    """The binary in a folder of its own."""

    def __init__(self, binary):
        self.binary = str(pathlib.Path(binary).resolve())
        self.kept = tempfile.TemporaryDirectory(prefix='rules-')
        self.folder = pathlib.Path(self.kept.name)

    def file(self, name, text):
        (self.folder / name).write_text(text if isinstance(text, str) else json.dumps(text))
        return name

    def __call__(self, *args, stdin=''):
        done = subprocess.run([self.binary, 'change', *args], input=stdin, capture_output=True, text=True, check=False,
                              timeout=CALL_TIMEOUT, cwd=self.folder)
        return done.returncode, done.stdout, done.stderr

    def json(self, *args):
        code, out, err = self(*args, '--json')
        eq((code, err), (0, ''))
        return [json.loads(line) for line in out.splitlines()]


@scene
def rules_without_faults_are_counted(binary):
    verbs = Verbs(binary)
    verbs.file('s.yaml', SURFACE.replace('"palimpsest.render"', '"palimpsest.*"'))
    eq(verbs('rules', 'check', 's.yaml'), (0, 's.yaml: 3 rules, no fault\n', ''))
    eq(verbs('rules', 'check', 's.yaml', '--json'), (0, '', ''))
    eq(verbs('rules', 'check', '-', stdin='rules:\n  a: { match: { stream: x }, effect: drop }\n'),
       (0, '-: 1 rule, no fault\n', ''))


@scene
def a_cache_that_is_not_purged_of_all_is_a_warning(binary):
    verbs = Verbs(binary)
    says = ('edge_ttl is of no use: no rule purges http://127.0.0.1:6081 for palimpsest.gone of kind hidden, so no page may be kept there; '
            'palimpsest.render, palimpsest.gone and palimpsest.dated are wanted')
    verbs.file('s.yaml', SURFACE)
    eq(verbs('rules', 'check', 's.yaml'), (0, f's.yaml:5: edge: warning: {says}\ns.yaml: 3 rules, no fault\n', ''))
    eq(verbs.json('rules', 'check', 's.yaml'), [{'file': 's.yaml', 'line': 5, 'rule': 'edge', 'warning': says}])


@scene
def a_timeline_that_stays_empty_is_a_warning(binary):
    verbs = Verbs(binary)
    says = 'match takes no event that says what was superseded, so nothing is noted; palimpsest.render and palimpsest.dated are wanted'
    rule = 'rules:\n  t: {{ match: {{ stream: {} }}, effect: timeline }}\n'
    verbs.file('t.yaml', rule.format('palimpsest.gone'))
    eq(verbs('rules', 'check', 't.yaml'), (0, f't.yaml:2: t: warning: {says}\nt.yaml: 1 rule, no fault\n', ''))
    verbs.file('u.yaml', rule.format('palimpsest.dated'))
    eq(verbs('rules', 'check', 'u.yaml'), (0, 'u.yaml: 1 rule, no fault\n', ''))


@scene
def a_rule_that_feeds_the_events_is_no_fault_but_told(binary):
    verbs = Verbs(binary)
    verbs.file('f.yaml', 'rules:\n  a: { match: { stream: x }, effect: http, url: "http://127.0.0.1:7231/v1/events" }\n')
    code, out, err = verbs('rules', 'check', 'f.yaml')
    doubt = 'url leads to /v1/events: if a rule matches what comes of it, they feed each other'
    eq((code, out.splitlines(), err), (0, [f'f.yaml:2: a: warning: {doubt}', 'f.yaml: 1 rule, no fault'], ''))
    eq(verbs.json('rules', 'check', 'f.yaml'), [{'file': 'f.yaml', 'line': 2, 'rule': 'a', 'warning': doubt}])


@scene
def every_fault_is_a_line_and_the_exit_status_is_2(binary):
    verbs = Verbs(binary)
    verbs.file('f.yaml', 'rules:\n  a:\n    match: { stream: x, title: "/(/" }\n    effect: http\n    url: ftp://h\n  B: 1\n')
    code, out, err = verbs('rules', 'check', 'f.yaml')
    eq((code, err), (2, ''))
    eq(out.splitlines(), ['f.yaml:3: a: title is no regular expression: missing closing parenthesis, at character 2',
                          'f.yaml:5: a: url wants a URL that begins with http:// or https://',
                          'f.yaml:6: "B" is no name of a rule: 1 to 64 of a-z, 0-9, _ and -'])
    code, out, _ = verbs('rules', 'check', 'f.yaml', '--json')
    eq(code, 2)
    eq([(d['file'], d['line'], d['rule']) for d in map(json.loads, out.splitlines())],
       [('f.yaml', 3, 'a'), ('f.yaml', 5, 'a'), ('f.yaml', 6, '')])
    for text, says in (('', 'there is no section `change: rules:`'), ('a: b: c', ':1: not YAML'), ('rules: 1', 'rules wants a section')):
        verbs.file('g.yaml', text)
        code, out, _ = verbs('rules', 'check', 'g.yaml')
        eq(code, 2)
        check(says in out, out)
    code, out, err = verbs('rules', 'check', 'none.yaml')
    eq((code, out), (1, ''))
    check('cannot read none.yaml' in err, err)
    verbs.file('large.yaml', '#' * (1 << 20) + '\n')
    eq(verbs('rules', 'check', 'large.yaml')[0], 1)


@scene
def a_name_in_a_fault_moves_nobodys_cursor(binary):
    verbs = Verbs(binary)
    verbs.file('f.yaml', 'rules: { a: { "\\x1b[2J\\nx": 1, match: { stream: x }, effect: drop } }\n')
    code, out, _ = verbs('rules', 'check', 'f.yaml')
    eq(code, 2)
    check('\x1b' not in out and out.count('\n') == 1, out)


@scene
def an_event_is_tested_against_each_rule(binary):
    verbs = Verbs(binary)
    verbs.file('s.yaml', SURFACE)
    verbs.file('e.json', json.dumps(RENDER) + '\n')
    code, out, err = verbs('test', 's.yaml', 'e.json')
    eq((code, err), (0, ''))
    eq(out.splitlines(), ['jobs: no: line 3: stream is "palimpsest.render", not "mediawiki.job.*"',
                          'edge: matches: purge',
                          '    PURGE http://127.0.0.1:6081/en.test/v1/page/html/A%20b%2Fc',
                          'hook: matches: http',
                          '    POST http://127.0.0.1:9000/en.test/A%20b%2Fc',
                          '      ' + json.dumps(RENDER)])
    eq(verbs('test', 's.yaml', '-', stdin=json.dumps(RENDER)), (0, out, ''))
    jobs, edge, hook = verbs.json('test', 's.yaml', 'e.json')
    eq(jobs, {'rule': 'jobs', 'effect': 'job', 'matches': False,
              'why': 'line 3: stream is "palimpsest.render", not "mediawiki.job.*"'})
    eq(edge['requests'], [{'method': 'PURGE', 'url': 'http://127.0.0.1:6081/en.test/v1/page/html/A%20b%2Fc'}])
    eq(json.loads(hook['requests'][0]['body']), RENDER)
    verbs.file('look.yaml', 'rules: { watch: { match: { stream: t }, effect: look } }')
    verbs.file('none.json', '{"meta":{"stream":"t"}}')
    eq(verbs('test', 'look.yaml', 'none.json')[1], 'watch: matches: look, but the event has no title: nothing is looked at\n')
    eq('title' in verbs.json('test', 'look.yaml', 'none.json')[0], False)


@scene
def a_job_keeps_its_bytes_and_its_database_names_the_domain(binary):
    verbs = Verbs(binary)
    verbs.file('s.yaml', SURFACE)
    text = '{"meta": {"stream":"mediawiki.job.refreshLinks"}, "type":"refreshLinks", "database":"enwiki","b":1,"a":"\\u00e9"}'
    verbs.file('e.json', text)
    jobs, _, hook = verbs.json('test', 's.yaml', 'e.json')
    eq(jobs['requests'], [{'method': 'POST', 'url': 'http://127.0.0.1:8080/w/rest.php/eventbus/v0/internal/job/execute',
                           'body': text}])
    eq(hook['why'], 'line 6: something in not holds')


@scene
def a_template_that_fails_is_exit_status_1(binary):
    verbs = Verbs(binary)
    verbs.file('s.yaml', SURFACE)
    for event, says in (({**RENDER, 'page_title': '..'}, 'a segment of the path becomes . or ..'),
                        ({**RENDER, 'page_title': 'a\r\nX: y'}, '{title} has a control character'),
                        ({'meta': RENDER['meta']}, '{title} is not there')):
        code, out, _ = verbs('test', 's.yaml', verbs.file('e.json', event))
        eq(code, 1)
        check(f'    cannot be done: urls: {says}\n' in out and f'    cannot be done: url: {says}\n' in out, out)
    rules = 'rules: { r: { match: { stream: "*" }, effect: http, url: "http://{domain}/" } }\n'
    verbs.file('any.yaml', rules)
    verbs.file('one.yaml', rules + 'domains: { de.test: }\n')
    verbs.file('e.json', RENDER)
    eq(verbs.json('test', 'any.yaml', 'e.json')[0]['requests'][0]['url'], 'http://en.test/')
    code, out, _ = verbs('test', 'one.yaml', 'e.json')
    eq(code, 1)
    check('{domain} is none of the configured domains' in out, out)


@scene
def what_is_no_event_is_refused(binary):
    verbs = Verbs(binary)
    verbs.file('s.yaml', SURFACE)
    for text, says in (('', 'is no JSON'), ('[]', 'has no meta.stream'), ('{"meta":{}}', 'has no meta.stream'), ('{', 'is no JSON')):
        verbs.file('e.json', text)
        code, out, err = verbs('test', 's.yaml', 'e.json')
        eq((code, out), (2, ''), text)
        check(says in err, err)
    eq(verbs('test', '-', '-')[0], 2)
    code, out, err = verbs('test', verbs.file('f.yaml', 'rules: { A: 1 }'), 'e.json')
    eq((code, out), (2, ''))
    check(err.startswith('f.yaml:1: '), err)


def _examples(text):
    """Indented blocks that begin with `rules:`, with the columns they have there."""
    blocks, block = [], None
    for line in [*text.splitlines(), '']:
        if line.strip() == 'rules:':
            block = [line]
        elif block is not None and (line.startswith('      ') or line.strip().startswith('rules:')):
            block.append(line)
        elif block is not None:
            blocks.append('\n'.join(block) + '\n')
            block = None
    return blocks


@scene
def what_the_manual_shows_is_right(binary):
    verbs = Verbs(binary)
    examples = _examples((ROOT / 'docs/rules.md').read_text())
    eq(len(examples), 4)
    for text in examples:
        code, out, _ = verbs('rules', 'check', '-', stdin=text)
        eq(code, 0, out)
    verbs.file('rules.yaml', examples[0])
    verbs.file('render-alone.yaml', 'rules:\n  edge:\n    match: { stream: palimpsest.render }\n    effect: purge\n    urls: [/x]\n'
               '    targets: ["http://127.0.0.1:6081"]\n    edge_ttl: 1d\n')
    _, warned, _ = verbs('rules', 'check', 'render-alone.yaml')
    verbs.file('event.json', {**RENDER, 'page_title': 'Moon'})
    _, out, _ = verbs('test', 'rules.yaml', 'event.json')
    manual = [line[4:] for line in (ROOT / 'docs/rules.md').read_text().splitlines() if line.startswith('    ')]
    for line in warned.splitlines() + out.splitlines()[:3]:
        check(line in manual, f'docs/rules.md does not show: {line}')


if __name__ == '__main__':
    main()
