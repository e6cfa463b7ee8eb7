"""Goal: what docs/api.md, docs/api-queues.md and docs/api-admin.md show is what the server answers, and the tests that
docs/verification.md and docs/seeds.md name are there.
Method: each `$ ` line of these three is run in order on one server; what follows must be its output, with TID for
uuids, INSTANT for times, DATE for HTTP dates, of queues ID, TOKEN, AGE and N for ids, tokens, ages and microseconds,
and `...` for any lines. Commands share a folder."""
import pathlib
import re
import subprocess

from harness import Server, SceneError, check, main, scene

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOWN = 'http://127.0.0.1:7231'
API = ('docs/api.md', 'docs/api-queues.md', 'docs/api-admin.md')      # in this order


def examples(text):
    """(command, [lines of its output]) of every indented line that starts with `$ `."""
    found, margin = [], None
    for line in text.splitlines():
        command = re.match(r'( {4,8})\$ (.*)', line)
        if command:
            margin = command.group(1)
            found.append((command.group(2), []))
        elif margin is not None and line.startswith(margin):
            found[-1][1].append(line[len(margin):])
        else:
            margin = None
    return found


def plain(text):
    text = re.sub(r'[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}', 'TID', text)
    text = re.sub(r'\b[0-9A-Za-z]{27}\b', 'ID', text)
    text = re.sub(r'"token":"\d+"', '"token":"TOKEN"', text)
    text = re.sub(r'"(\w+_age)":"[^"]+s"', r'"\1":"AGE"', text)
    text = re.sub(r'(\\?"write_us\\?"):\d+', r'\1:N', text)
    text = re.sub(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z', 'INSTANT', text)
    return re.sub(r'\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT', 'DATE', text)


def matches(want, got):
    """Are the lines of got those of want, where `...` stands for any number?"""
    if not want:
        return not got
    if want[0] == '...':
        return any(matches(want[1:], got[n:]) for n in range(len(got) + 1))
    return bool(got) and want[0] == got[0] and matches(want[1:], got[1:])


@scene
def every_example_of_the_api_is_true(binary):
    found = [example for name in API for example in examples((ROOT / name).read_text())]
    check(len(found) > 60, f'only {len(found)} examples')
    with Server(binary) as server:
        for command, want in found:
            done = subprocess.run(['sh', '-c', command.replace(SHOWN, server.url)], capture_output=True, text=True,
                                  timeout=60, check=False, cwd=server.folder)
            got = [line.rstrip() for line in plain(done.stdout).splitlines() if line.strip()]
            want = [line.rstrip() for line in want if line.strip()]
            if not matches(want, got):
                raise SceneError(f'{command}\nwant:\n' + '\n'.join(want) + '\ngot:\n' + '\n'.join(got))


@scene
def tests_that_documents_name_are_there(_):
    """docs/verification.md says of each finding which test holds it, docs/seeds.md of each statement where it is met."""
    sources = [path for folder in ('test', 'tools', 'src', 'bench') for path in sorted((ROOT / folder).rglob('*'))
               if path.suffix in ('.c', '.h', '.py', '.pml', '.sh')]
    files = {path.name for path in sources}
    words = set(re.findall(r'\w+', ' '.join(path.read_text(errors='replace') for path in sources)))
    for document, least in (('docs/verification.md', 100), ('docs/seeds.md', 30)):
        text = (ROOT / document).read_text()
        named = {name for quoted in re.findall(r'`([^`]+)`', text)
                 for name in re.findall(r'^[a-z]\w*(?:_\w+){2,}$', quoted)}
        check(len(named) > least, f'{document}: {len(named)} names of tests')
        missing = sorted(name for name in named if name not in words and not name.startswith('palimpsest_'))
        missing += sorted(name for name in re.findall(r'\b((?:test|scene|fuzz|model)_\w+\.(?:c|py))', text)
                          if name not in files)
        check(not missing, f'{document} names what is not there: {missing}')


main()
