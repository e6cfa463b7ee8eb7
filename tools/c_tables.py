"""Tables of C sources, read without a compiler: macros are expanded, constants evaluated, initialisers become Python values.

As much of C as the tables of this tree need: no #if (all branches are read), no casts but of constants, no arithmetic on
strings. What cannot be evaluated stays a tuple of tokens."""
import functools
import pathlib
import re

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|0[xX][0-9a-fA-F]+[uUlL]*|\d[\d.]*[uUlL]*|[A-Za-z_]\w*'
                   r'|\.\.\.|##|<<|>>|->|&&|\|\||[<>=!]=|[^\s\w]')
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
DIRECTIVE = re.compile(r'\s*#\s*(\w+)\s*(.*)')
DEFINE = re.compile(r'(\w+)(\(([^)]*)\))?\s*(.*)')
NUMBER = re.compile(r'(0[xX][0-9a-fA-F]+|\d+)[uUlL]*$')
ESCAPES = {'n': '\n', 't': '\t', '0': '\0'}
KNOWN = {'INT64_MAX': 2**63 - 1, 'UINT64_MAX': 2**64 - 1, 'UINT32_MAX': 2**32 - 1, 'UINT16_MAX': 2**16 - 1, 'NULL': None,
         'true': True, 'false': False}
TYPES = {'uint64_t', 'int64_t', 'uint32_t', 'int32_t', 'size_t', 'unsigned', 'int', 'long', 'double'}


def tokens_of(text):
    return TOKEN.findall(text)


@functools.lru_cache(maxsize=None)
def lines_of(path):
    """Without comments, continued lines joined."""
    text = re.sub(r'\\\n', ' ', path.read_text(encoding='utf-8'))
    return COMMENT.sub(lambda m: m.group() if m.group()[0] in '"\'' else ' ', text).split('\n')


def groups(tokens, at, opening, closing):
    """The parts between commas of a bracket that opens at tokens[at], and where it ends."""
    depth, parts, part = 0, [], []
    for place in range(at, len(tokens)):
        token = tokens[place]
        if token in ('(', '{', '['):
            depth += 1
            if depth == 1:
                continue
        elif token in (')', '}', ']'):
            depth -= 1
            if depth == 0:
                if token != closing:
                    raise ValueError(f'{opening} ended by {token}')
                return (parts + [part] if part or parts else []), place
        elif token == ',' and depth == 1:
            parts.append(part)
            part = []
            continue
        part.append(token)
    raise ValueError(f'{opening} has no end')


def expand(tokens, macros, hidden=frozenset()):
    out, at = [], 0
    while at < len(tokens):
        token = tokens[at]
        macro = macros.get(token) if token not in hidden else None
        if macro is None:
            out.append(token)
            at += 1
            continue
        names, body = macro
        given = {}
        if names is not None:
            if at + 1 >= len(tokens) or tokens[at + 1] != '(':
                out.append(token)
                at += 1
                continue
            args, at = groups(tokens, at + 1, '(', ')')
            for number, name in enumerate(names):
                given[name] = args[number] if number < len(args) else []
            if names and names[-1] == '...':
                rest = args[len(names) - 1:]
                given['__VA_ARGS__'] = sum((part + [','] for part in rest), [])[:-1]
        pasted, put = [], []
        for number, word in enumerate(body):
            beside = '##' in body[max(number - 1, 0):number + 2]
            put = given[word] if word in given else [word]
            pasted += put if beside or word not in given else expand(put, macros, hidden)
        while '##' in pasted:
            n = pasted.index('##')
            pasted[n - 1:n + 2] = [pasted[n - 1] + pasted[n + 1]]
        out += expand(pasted, macros, hidden | {token})
        at += 1
    return out


class Unit:
    """A source file with what it includes of the tree. macros: those in force at its end."""

    def __init__(self, tree, path):
        self.tree, self.path, self.macros, self.seen, self._constants = tree, path, {}, [], {}
        self._pieces = []                        # (lines between directives, the macros in force there)
        self._read(path, True)
        for name in self.seen:
            self._constants.update(tree.enums(name))
        self._constants.update(tree.enums(path))

    def _read(self, path, keep):
        self.seen.append(path)
        pending = []

        def flush():
            if keep and pending:
                self._pieces.append((list(pending), dict(self.macros)))
            pending.clear()

        for line in lines_of(path):
            if not line.lstrip().startswith('#'):
                if keep:
                    pending.append(line)
                continue
            word, rest = DIRECTIVE.match(line).groups()
            if word == 'define':
                flush()
                name, bracket, params, body = DEFINE.match(rest).groups()
                names = [one.strip() for one in params.split(',') if one.strip()] if bracket else None
                self.macros[name] = (names, tokens_of(body))
            elif word == 'undef':
                flush()
                self.macros.pop(rest.strip(), None)
            elif word == 'include' and rest.startswith('"'):
                flush()
                found = self.tree.root / 'src' / rest.split('"')[1]
                if found.exists() and (found not in self.seen or found.suffix == '.def'):
                    self._read(found, keep and found.suffix == '.def')
        flush()

    def value(self, name):
        if name in KNOWN:
            return KNOWN[name]
        if name in self._constants:
            before, words = self._constants[name]
            own = self.evaluate(words) if words else None
            if words:
                return own
            return 0 if before is None else self.value(before) + 1
        if name in self.macros and self.macros[name][0] is None:
            return self.evaluate(expand(self.macros[name][1], self.macros, frozenset({name})))
        raise KeyError(name)

    def evaluate(self, tokens):
        """Of an initialiser: text, number, None, a name, or the tokens."""
        if tokens[:1] == ['('] and tokens[-1:] == [')'] and groups(tokens, 0, '(', ')')[1] == len(tokens) - 1:
            tokens = tokens[1:-1]
        if len(tokens) == 2 and tokens[0] == '&':
            tokens = tokens[1:]
        if tokens and all(token[0] == '"' for token in tokens):
            return text_of(tokens)
        if len(tokens) == 1 and re.match(r'[A-Za-z_]\w*$', tokens[0]):
            try:
                return self.value(tokens[0])
            except KeyError:
                return tokens[0]
        words, at = [], 0
        while at < len(tokens):
            token = tokens[at]
            if token == '(' and at + 2 < len(tokens) and tokens[at + 1] in TYPES and tokens[at + 2] == ')':
                at += 3
                continue
            number = NUMBER.match(token)
            if number:
                words.append(str(int(number.group(1), 8 if re.match(r'0\d', number.group(1)) else 0)))
            elif token in ('+', '-', '*', '(', ')', '<<', '>>', '%', '|'):
                words.append(token)
            elif token == '/':
                words.append('//')
            elif token in ('UINT64_C', 'INT64_C'):
                pass
            else:
                try:
                    words.append(str(int(self.value(token))))
                except (KeyError, TypeError, ValueError):
                    return tuple(tokens)
            at += 1
        try:
            return eval(' '.join(words), {'__builtins__': {}})          # of numbers and operators alone
        except (SyntaxError, TypeError):
            return tuple(tokens)

    def rows(self, name, fields):
        """Of a table `name[...] = { ... }`: each row as a dict; values without a designator are these fields in turn."""
        begin = re.compile(rf'\b{name}\s*\[[^]]*\]\s*=\s*{{', re.S)
        for number, (lines, _) in enumerate(self._pieces):
            found = begin.search('\n'.join(lines))
            if found is None:
                continue
            tokens = expand(['{', *tokens_of('\n'.join(lines)[found.end():])], self._pieces[number][1])
            for more, macros in self._pieces[number + 1:]:
                try:
                    groups(tokens, 0, '{', '}')
                    break
                except ValueError:
                    tokens += expand(tokens_of('\n'.join(more)), macros)
            parts, _ = groups(tokens, 0, '{', '}')
            return [self._row(part, fields) for part in parts if part]
        raise ValueError(f'{self.path} has no table {name}')

    def texts(self, name):
        """The words of a table of texts: of this file, else of the only one that has it."""
        begin = re.compile(rf'\b{name}\[\w*\] = {{([^}}]*)}}', re.S)
        for path in [self.path, *self.tree.sources]:
            found = begin.search('\n'.join(lines_of(path))) if path.suffix == '.c' else None
            if found:
                return re.findall(r'"([^"]*)"', found.group(1))
        raise KeyError(f'no source has the texts {name}')

    def indexed(self, name):
        """Of a table `name[...] = { [INDEX] = value, ... }`: {index: value}"""
        return {one['']: one['='] for one in self.rows(name, ('=',))}

    def _row(self, tokens, fields):
        if tokens[0] == '[':
            end = tokens.index(']')
            return {'': self.evaluate(tokens[1:end]), '=': self.evaluate(tokens[end + 2:])}
        if tokens[0] != '{':
            return {fields[0]: self.evaluate(tokens)}
        row, turn = {}, 0
        for part in groups(tokens, 0, '{', '}')[0]:
            if not part:
                continue
            if part[0] == '.' and part[2] == '=':
                name, part = part[1], part[3:]
                turn = fields.index(name) + 1 if name in fields else turn
            elif part[0] == '.':
                continue
            else:
                name, turn = fields[turn] if turn < len(fields) else None, turn + 1
            row[name] = self.evaluate(part)
        return row


def enums(tokens):
    """name: (the one before it, or None; tokens of its own value)"""
    found, at = {}, 0
    while at < len(tokens):
        if tokens[at] == 'enum':
            place = at + 1 + (tokens[at + 1] != '{')
            if tokens[place:place + 1] == ['{']:
                parts, at = groups(tokens, place, '{', '}')
                before = None
                for part in parts:
                    if part:
                        found[part[0]] = (before, part[2:])
                        before = part[0]
        at += 1
    return found


class Tree:
    def __init__(self, root):
        self.root, self._units, self._enums = pathlib.Path(root), {}, {}

    def unit(self, path):
        path = self.root / path
        if path not in self._units:
            self._units[path] = Unit(self, path)
        return self._units[path]

    def enums(self, path):
        if path not in self._enums:
            text = [line for line in lines_of(path) if not line.lstrip().startswith('#')]
            self._enums[path] = enums(tokens_of('\n'.join(text)))
        return self._enums[path]

    @functools.cached_property
    def sources(self):
        return sorted((self.root / 'src').rglob('*.[ch]'))

    @functools.cached_property
    def _made(self):
        """name of a constant: the files that may make it"""
        made, word = {}, re.compile(r'\b([A-Z][A-Z0-9_]{3,})\s*=(?!=)|#\s*define\s+([A-Z][A-Z0-9_]{3,})\b')
        for path in self.sources:
            for one, other in word.findall(path.read_text(encoding='utf-8')):
                made.setdefault(one or other, []).append(path)
        return made

    def named(self, name):
        """The value of the only constant of this name in src."""
        found = {}
        for path in dict.fromkeys(self._made.get(name, [])):
            unit = self.unit(path)
            if name in self.enums(path) or name in unit.macros:
                value = unit.value(name)
                if isinstance(value, (int, str)):
                    found[path] = value
        if len(set(found.values())) != 1:
            raise KeyError(f'{name} has no value, or several, in src: {found}')
        return found.popitem()[1]


def calls(path, name):
    """The arguments of each NAME(...) of an X-list, and those of SECTION(...), in their order."""
    tokens = tokens_of('\n'.join(lines_of(path)))
    for at, token in enumerate(tokens):
        if token in (name, 'SECTION') and tokens[at + 1] == '(':
            yield token, groups(tokens, at + 1, '(', ')')[0]


def text_of(tokens):
    return ''.join(re.sub(r'\\(.)', lambda m: ESCAPES.get(m.group(1), m.group(1)), token[1:-1]) for token in tokens)
