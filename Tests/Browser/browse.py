"""browse.py BROWSER URL STEPS  opens URL in a headless Chromium and takes STEPS, a JSON array, one after another:

  {"size": [390, 844]}       the size of the window; a third member "dark": dark colours
  {"wait": "expression"}     until the expression is true, at most 15 s
  {"value": "expression"}    adds its value to the answer
  {"key": "Tab"}             presses a key
  {"click": "selector"}      clicks the middle of an element
  {"type": "text"}           types into the element that has the focus
  {"tree": "role"}           adds the names that a screen reader has for what has this role, a line each
  {"picture": "path"}        writes what the page shows, down to its end, as PNG

Prints {"values": […], "console": […]}: the console has all errors and warnings of the page. It speaks the DevTools
protocol over a pipe: a message ends with a zero byte.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time


class Browser:
    def __init__(self, program, folder):
        to_read, self.writing = os.pipe()
        self.reading, to_write = os.pipe()

        def arrange():
            # Chromium reads from 3 and writes to 4. Neither may be overwritten before it is copied.
            one, two = os.dup(to_read), os.dup(to_write)
            os.dup2(one, 3)
            os.dup2(two, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--remote-debugging-pipe", "--user-data-dir=" + folder,
             "--no-first-run", "--no-proxy-server", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "about:blank"],
            close_fds=False, preexec_fn=arrange, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.session, self.console = 0, b"", None, []

    def message(self):
        while b"\0" not in self.rest:
            piece = os.read(self.reading, 1 << 20)
            if not piece:
                sys.exit("the browser has ended")
            self.rest += piece
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        self.note(message.get("method"), message.get("params"))
        return message

    def note(self, method, told):
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.console.append(told["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(part.get("value")) for part in told["args"]))

    def call(self, method, **given):
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{expression}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Page.navigate", url=url)

    def size(self, width, height, colours="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])

    def wait(self, expression):
        end = time.monotonic() + 15
        while not self.value(expression):
            if time.monotonic() > end:
                sys.exit(f"never true: {expression}\n{self.console}\n{self.value('document.body.innerText')}")
            time.sleep(0.05)

    def click(self, selector):
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, name):
        code = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}[name]
        text = {"text": {"Enter": "\r"}.get(name, name)} if name in ("Enter", " ") else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def tree(self, role):
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return "\n".join(node.get("name", {}).get("value", "") for node in nodes
                         if not node["ignored"] and node["role"]["value"] == role)

    def picture(self, path):
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def end(self):
        self.process.kill()
        self.process.wait()


def main():
    program, url, steps = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    values = []
    # The browser's own processes may still write there when it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            browser.open(url)
            for step in steps:
                (name, given), = step.items()
                if name == "size":
                    browser.size(*given)
                elif name in ("value", "tree"):
                    values.append(getattr(browser, name)(given))
                elif name == "type":
                    browser.call("Input.insertText", text=given)
                else:
                    getattr(browser, name)(given)
        finally:
            browser.end()
    print(json.dumps({"values": values, "console": browser.console}))


main()
