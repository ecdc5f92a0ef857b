"""The table of a certification: each check is printed as it comes and kept for a file; any that fails ends it with 1."""

import json


class Table:
    def __init__(self, path):
        self.rows, self.path = [], path

    def add(self, what, ok, evidence, **values):
        self.rows.append({"what": what, "ok": bool(ok), "evidence": evidence, **values})
        print(f"{'ok  ' if ok else 'FAIL'} {what:<44} {evidence}", flush=True)

    def write(self, seconds):
        failed = [row["what"] for row in self.rows if not row["ok"]]
        self.path.write_text(json.dumps({"passed": not failed, "seconds": round(seconds), "failed": failed,
                                         "rows": self.rows}, indent=1) + "\n")
        print(f"{len(self.rows) - len(failed)} of {len(self.rows)} passed in {seconds:.0f} s; {self.path}")
        return bool(failed)
