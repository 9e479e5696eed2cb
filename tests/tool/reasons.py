"""The table of src/base/reason.{h,cc}, read from the source: what tests compare the tool and the manual with."""
import re

from tool import SOURCE


def read(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as file:
        return file.read()


def numbers():
    """enumerator -> number, in the order of the header."""
    body = re.search(r"enum class Reason.*?\{(.*?)\};", read("src/base/reason.h"), re.DOTALL).group(1)
    return {name: int(value, 0) for name, value in re.findall(r"(\w+) = (0x[0-9a-fA-F]+|\d+),", body)}


def table():
    """(number, name, meaning) of each row, `none` left out."""
    text = read("src/base/reason.cc")
    number_of = numbers()
    rows = re.findall(r'\{Reason::(\w+),\s*"([^"]+)",\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}', text)
    joined = [(number_of[enumerator], name, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', meaning)))
              for enumerator, name, meaning in rows]
    return [row for row in joined if row[0] != 0]
