#!/usr/bin/env python3
"""Prints docs/reference from the tables in src: options, verbs, routes, metrics, limits. No binary is needed.

usage: reference.py [ROOT]           compares the files with the tables; exit 1 and a line for each file that differs
       reference.py [ROOT] --write   writes the files

That the binary says the same, test/scene/scene_process_options.py sees."""
import difflib
import pathlib
import re
import sys

from c_tables import Tree, calls, text_of

OPTION = ('name', 'flag', 'type', 'min', 'max', 'choices', 'initial', 'prose', 'bytes_max', 'offset', 'width', 'reload')
ROUTE = ('method', 'pattern', 'handle', 'gate', 'body_bytes_max', 'permission', 'label', 'row')
VERB = ('name', 'usage', 'summary', 'prose', 'options')
VERB_OPTION = ('name', 'letter', 'value', 'prose')
SIZES = (('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('k', 1 << 10))
TIMES = (('d', 86400 * 10**9), ('h', 3600 * 10**9), ('m', 60 * 10**9), ('s', 10**9), ('ms', 10**6), ('us', 10**3))
NEVER = 2**63 - 1
MADE = '<!-- Made by tools/reference.py from {}. Change the table there, then run `python3 tools/reference.py --write`. -->'


def scaled(value, units, smallest):
    for name, size in units:
        if value and value % size == 0:
            return f'{value // size}{name}'
    return f'{value}{smallest}' if value else '0'


def size_of(value):
    return scaled(value, SIZES, '')


def duration_of(value):
    return 'never' if value == NEVER else scaled(value, TIMES, 'ns')


def cell(text):
    return str(text).replace('|', '\\|').replace('\n', ' ')


def row(*cells):
    return '| ' + ' | '.join(cell(one) for one in cells) + ' |'


def table(heads, rows):
    return '\n'.join([row(*heads), row(*('---' for _ in heads)), *rows]) + '\n'


def code(text):
    return f'`{text}`' if text else ''


def listed(rows):
    """Without the row that ends a table."""
    return [one for one in rows if one.get('name', one.get('pattern')) is not None]


# ---- options ----

OPTION_TABLES = (('options_table.c', 'option_rows', ''), ('options_table.c', 'option_bucket_rows', 'page.'),
                 ('options_table.c', 'option_value_rows', 'buckets.NAME.'),
                 ('options_table.c', 'option_origin_rows', 'domains.NAME.origin.'),
                 ('options_list.c', 'option_list_rows', 'lists.NAME.'),
                 ('options_filter.c', 'option_listener_rows', 'listeners.NAME.'))
# first word of a name: the section that it stands in
OPTION_SECTIONS = (
    ('Server', 'listen listen_mode admin_listen data domains auth public_url compat drain_timeout write_timeout clock '
               'pool_threads log test_hooks'),
    ('Requests and connections', 'http'), ('Renders and their origins', 'flight client hot_bytes hot_ttl'),
    ('Store', 'store'), ('Pages', 'page'), ('RESTBase\'s tables', 'page.secondary'), ('Buckets of values', 'value buckets'),
    ('Origins', 'domains.NAME'), ('Lists', 'list lists'), ('Several servers', 'redis servers'), ('Queues', 'queue'),
    ('Events and rules', 'change stream'), ('Named listeners', 'listeners'))
OPTIONS_HEAD = """# Options

Every option of the server. [Running Palimpsest](../operations.md#options) says where values come from, and how they are
written. `palimpsest options` prints the same rows.

- **SIGHUP**: `yes` means that a running server takes a new value over on SIGHUP. The others wait for a restart.
- `page.FIELD` also stands for `buckets.NAME.FIELD` of each other bucket of pages.
- An empty default means that nothing is set.
"""


def option_limits(one, types, unit):
    kind, low, high = types[one['type']], one.get('min', 0), one.get('max', 0)
    if kind == 'CHOICE':
        return ', '.join(unit.texts(one['choices']))
    if kind in ('SIZE', 'MS', 'NS'):
        write = size_of if kind == 'SIZE' else duration_of
        return f'{write(low)} to {write(high)}'
    return {'COUNT': f'{low} to {high}', 'MODE': f'{low:04o} to {high:04o}', 'FLAG': 'true, false', 'TEXT': 'text',
            'NAMES': 'names', 'DOMAINS': 'names', 'LISTENS': 'addresses', 'LISTEN_ADMIN': 'address', 'RULES': 'rules',
            'HOOKS': 'nothing or an instant', 'GONE': 'anything'}[kind]


def option_section(name):
    found = max(((len(word), title) for title, words in OPTION_SECTIONS for word in words.split()
                 if name == word or name.startswith(word + '.')), default=None)
    if found is None:
        raise KeyError(f'{name} belongs to no section: tools/reference.py, OPTION_SECTIONS')
    return found[1]


def options(tree):
    names = tree.enums(tree.root / 'src/server/options_table.h')
    types = {number: name.removeprefix('OPTION_') for number, name in enumerate(list(names)[:list(names).index('OPTION_GONE') + 1])}
    sections = {title: [] for title, _ in OPTION_SECTIONS}
    for file, name, prefix in OPTION_TABLES:
        unit = tree.unit(f'src/server/{file}')
        for one in listed(unit.rows(name, OPTION)):
            flag = f', `--{one["flag"]}`' if one.get('flag') else ''
            sections[option_section(prefix + one['name'])].append(
                row(f'`{prefix}{one["name"]}`{flag}', option_limits(one, types, unit), code(one['initial']),
                    'yes' if one.get('reload') else '', one['prose'] + '.'))
    heads = ('option', 'values', 'default', 'SIGHUP', 'what it does')
    return [OPTIONS_HEAD] + [f'## {title}\n\n{table(heads, rows)}' for title, rows in sections.items()]


# ---- verbs ----

COMMON = ('server', 'token', 'json')
VERBS_HEAD = """# Verbs

Every verb of the program `palimpsest`. `palimpsest help VERB` explains one of them at length, and so does its man page.
`[X]` may be left out, `X...` may be repeated.
"""


def verb_option_rows(found, left_out=()):
    return [row(f'`--{one["name"]}{" " + one["value"] if one.get("value") else ""}`'
                + (f', `-{one["letter"]}`' if one.get('letter') not in (None, 0) else ''), one['prose'] + '.')
            for one in found if one['name'] not in left_out]


def verb_options(tree, name):
    found = listed(tree.unit('src/cli/verb_options.c').rows(name, VERB_OPTION)) if name else []
    for one in found:
        letter = one.get('letter')
        one['letter'] = letter[0][1] if isinstance(letter, tuple) and letter[0].startswith("'") else letter
    return found


def verbs(tree):
    found = listed(tree.unit('src/cli/verbs.c').rows('cli_verbs', VERB))
    client = listed(tree.unit('src/cli/args.c').rows('cli_client_options', VERB_OPTION))
    parts = [VERBS_HEAD, table(('verb', 'what it does'),
                               [row(code(f'{one["name"]} {one["usage"]}'.strip()), one['summary'][0].upper() + one['summary'][1:] + '.')
                                for one in found])]
    parts.append('## Exit status\n\nWith `--json` a failure is a document on standard error, with this name as `error`.\n\n' + exits(tree))
    parts.append('## Options of all verbs that talk to a server\n\n`--domain` and `--bucket` are for verbs about titles. All '
                 'five may also stand before the verb.\n\n' + table(('option', 'what it does'), verb_option_rows(client)))
    parts.append('## Options of single verbs\n\nVerbs that are not named here have none of their own. `--help` prints the help of a verb.\n')
    same = {}
    for one in found:
        rows = verb_option_rows(verb_options(tree, one.get('options')), COMMON if one['name'] != 'serve' else ())
        if rows:
            same.setdefault(tuple(rows), []).append(code(one['name']))
    for rows, names in same.items():
        parts.append(f'{", ".join(names)}:\n\n' + table(('option', 'what it does'), rows))
    return parts


def exits(tree):
    unit = tree.unit('src/cli/help.c')
    meanings, names = unit.indexed('exits'), tree.unit('src/cli/tell.c').indexed('exit_names')
    return table(('exit', 'name', 'meaning'), [row(number, code(names[number]), meanings[number][0].upper() + meanings[number][1:] + '.')
                                               for number in sorted(meanings)])


# ---- routes ----

METHODS = ('GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS', 'PURGE')
ROUTES_HEAD = """# Routes

Every path that the server answers. [The HTTP API](../api.md) explains them. `[X]` may be left out. HEAD goes where GET goes.

- **name**: in the label `route` of `/metrics`, and in `routes` of a [named listener](../operations.md#listeners).
- **permission**: what a key has to allow with `auth: internal`. None: no key is asked for, or the route says who may ask.
- **body**: the largest body that the route takes. Options may set less. None: the route takes no body.
- **where**: `all` is every listener. `admin` is the admin listener; without one the listeners on loopback.
"""


def sources_of_routes(tree):
    """name of a table: the source that has it"""
    found = {}
    for path in sorted((tree.root / 'src/app').rglob('*.c')):
        for name in re.findall(r'\b(app_\w+_routes)\[\] = {', path.read_text(encoding='utf-8')):
            found[name] = tree.unit(path.relative_to(tree.root))
    return found


def routes(tree):
    words = {one['label']: one for one in tree.unit('src/app/admin/spec.c').rows('rows', ('label', 'summary', 'query', 'answers'))}
    sections, missing, sources = {}, [], sources_of_routes(tree)
    for name in re.findall(r'app_\w+_routes', (tree.root / 'src/app/app.c').read_text(encoding='utf-8')):
        unit = sources[name]
        kinds = unit.rows('kinds', ('permission',)) if name == 'app_authority_routes' else []
        for number, one in enumerate(listed(unit.rows(name, ROUTE))):
            label = one['label']
            if label not in words:
                missing.append(label)
                continue
            inner = one.get('row') or ()
            held = [inner[at + 2] for at in range(len(inner) - 2) if inner[at] in ('permission', 'asks') and inner[at + 1] == '=']
            permission = kinds[number]['permission'] if kinds else one.get('permission') or text_of(held[:1])
            where = 'admin' if one.get('admin') else '`change.purge_listen`' if label == 'change.purge' else \
                '`--test-hooks`' if label.startswith('test.') else 'all'
            body = one.get('body_bytes_max')
            section = 'Operators' if where == 'admin' else ROUTE_SECTIONS.get(label.split('.')[0], 'Health and tests')
            sections.setdefault(section, []).append(
                row(code(f'{METHODS[one["method"]]} {one["pattern"]}'), code(label), code(permission), size_text(body) if body else '', where,
                    words[label]['summary'] + '.'))
    if missing:
        raise KeyError(f'src/app/admin/spec.c has no words for {", ".join(dict.fromkeys(missing))}')
    heads = ('route', 'name', 'permission', 'body', 'where', 'what it does')
    order = [*dict.fromkeys(ROUTE_SECTIONS.values()), 'Operators', 'Health and tests']
    return [ROUTES_HEAD] + [f'## {title}\n\n{table(heads, sections[title])}' for title in order]


ROUTE_SECTIONS = {'page': 'Pages', 'transform': 'Pages', 'entry': 'Pages', 'multi_content': 'Pages', 'key_value': 'Values',
                  'key_rev_value': 'Values', 'table': 'Tables', 'list': 'Lists', 'queue': 'Queues', 'lease': 'Queues',
                  'queues': 'Queues', 'partitions': 'Queues', 'storage': 'Queues', 'change': 'Events',
                  'namespaces': 'Users and roles', 'users': 'Users and roles', 'apikeys': 'Users and roles',
                  'roles': 'Users and roles', 'rolebindings': 'Users and roles'}


# ---- metrics ----

METRICS_HEAD = """# Metrics

Every series of `GET /metrics`, in the text format of Prometheus. Series of a part that is not configured are not there.
[Watch](../operations.md#watch) names the ones to look at first.

Labels are routes or configured names. They never hold text of a client. A histogram has the series `_bucket`, `_sum` and `_count`.
"""


def metrics(tree):
    rows = []
    for kind, words in calls(tree.root / 'src/base/metrics.def', 'METRIC'):
        if kind == 'METRIC':
            _, what, name, _, labels, prose = words
            labels = '' if labels == ['NULL'] else ', '.join(code(one) for one in text_of(labels).split(','))
            rows.append(row(code('palimpsest_' + text_of(name)), what[0].lower(), labels, text_of(prose)))
    return [METRICS_HEAD, table(('metric', 'kind', 'labels', 'what it counts'), sorted(rows))]


# ---- limits ----

LIMITS_HEAD = """# Limits

The limits that a client or an operator may meet. A limit with the name of an option has the value of that option; its default
stands here. The others are constants of the source. 1 MiB is 1,048,576 bytes, 1 MB is 1,000,000 bytes. [Limits of rules](../rules.md) stand with the rules.
"""


def size_text(value):
    for name, size in (('MB', 10**6), ('kB', 10**3), ('GiB', 1 << 30), ('MiB', 1 << 20), ('KiB', 1 << 10)):
        if value >= size and value % size == 0:
            return f'{value // size:,} {name}'
    return f'{value:,} bytes'


LIMIT_UNITS = {'BYTES': size_text, 'COUNT': '{:,}'.format, 'MS': lambda v: duration_of(v * 10**6), 'S': lambda v: duration_of(v * 10**9),
               'TEXT': str}


def limits(tree):
    initial = {}
    for file, name, prefix in OPTION_TABLES:
        for one in listed(tree.unit(f'src/server/{file}').rows(name, OPTION)):
            initial[prefix.removeprefix('domains.NAME.') + one['name']] = one['initial']
    sections = []
    for kind, words in calls(tree.root / 'src/base/limits.def', 'LIMIT'):
        if kind == 'SECTION':
            sections.append((text_of(words[0]), []))
            continue
        key, unit, what, then = words
        if key[0][0] == '"':
            name = text_of(key)
            value = code(initial[name])
        else:
            name = key[0]
            value = LIMIT_UNITS[unit[0]](tree.named(name))
        sections[-1][1].append(row(text_of(what), value, code(name), text_of(then)))
    return [LIMITS_HEAD] + [f'## {title}\n\n{table(("what", "limit", "name", "beyond it"), rows)}' for title, rows in sections]


FILES = {'options.md': (options, 'src/server/options_*.c'), 'verbs.md': (verbs, 'src/cli/verbs.c and verb_options.c'),
         'routes.md': (routes, 'the routes in src/app and src/app/admin/spec.c'), 'metrics.md': (metrics, 'src/base/metrics.def'),
         'limits.md': (limits, 'src/base/limits.def')}


def made(tree):
    for name, (parts, source) in FILES.items():
        yield name, '\n'.join([MADE.format(source) + '\n', *parts(tree)])


def main(words):
    write = '--write' in words
    root = pathlib.Path(([word for word in words if word != '--write'] or [pathlib.Path(__file__).parent.parent])[0])
    folder, bad = root / 'docs/reference', 0
    for name, text in made(Tree(root)):
        there = (folder / name).read_text(encoding='utf-8') if (folder / name).exists() else ''
        if there == text:
            continue
        if write:
            (folder / name).write_text(text, encoding='utf-8')
            continue
        bad += 1
        first = next(line for line in difflib.unified_diff(there.split('\n'), text.split('\n'), lineterm='', n=0) if re.match(r'[+-][^+-]', line))
        print(f'{folder / name}: differs from the table ({first[:100]}): python3 tools/reference.py --write')
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
