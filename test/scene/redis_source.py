"""What the sources send to Redis: the scripts as the program holds them, and the names of the commands. Read from the
C files, so that scenes and benchmarks judge what is there and not a copy of it."""
import hashlib
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / 'src/flight/share_scripts.c'
FOLDERS = ('src/redis', 'src/flight', 'src/list', 'src/app', 'src/server')
LITERAL = r'"((?:\\.|[^"\\])*)"'
ESCAPES = {r'\n': '\n', r'\"': '"', r'\\': '\\'}


def _text(literals):
    """What C makes of literals that stand one behind the other."""
    return re.sub(r'\\.', lambda found: ESCAPES[found.group()], ''.join(re.findall(LITERAL, literals)))


def scripts():
    """{name: text} of the scripts of flights."""
    source = re.sub(r'/\*.*?\*/', '', SCRIPTS.read_text(), flags=re.S)
    found = re.findall(rf'static const char (\w+)\[\] =\s*((?:{LITERAL}\s*)+);', source)
    parts = {name: _text(literals) for name, literals, _ in found}
    return {name: ''.join(parts[part] for part in re.split(r',\s*', names.strip()))
            for name, names in re.findall(r'\{ "(\w+)", \{([\w, ]+)\} \}', source)}


def digest(script):
    return hashlib.sha1(script.encode()).hexdigest()


def _upto_end(text):
    """text up to the parenthesis that closes what was opened before it."""
    depth = 1
    for at, c in enumerate(text):
        depth += (c == '(') - (c == ')')
        if depth == 0:
            return text[:at]
    raise ValueError(f'not closed: {text[:80]}')


def script_calls():
    """What stands within the parentheses of each redis.call of the scripts: 'HSET', KEYS[1], ..."""
    return [_upto_end(rest) for text in scripts().values() for rest in re.split(r'redis\.p?call\(', text)[1:]]


def command_names():
    """Names, in capitals, of all commands that the sources can send or that scripts call. In C a command is the
    first of a list of arguments, written STR("NAME")."""
    names = {re.match(r"'([A-Z]+)'", call).group(1) for call in script_calls()}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob('*.c')):
            names.update(re.findall(r'[{=]\s*STR\("([A-Z]{2,})"\)', path.read_text()))
    return names
