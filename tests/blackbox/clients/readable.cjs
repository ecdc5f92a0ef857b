// What Mozilla's Readability finds in pages: for each file that a line of the input names, a line of JSON with its text, or null.
const { Readability } = require(process.env.BROWSER_MODULES + '/@mozilla/readability');
const { JSDOM } = require(process.env.BROWSER_MODULES + '/jsdom');
const { readFileSync } = require('node:fs');

for (const line of readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const { file, url } = JSON.parse(line);
  let text = null;
  try {
    const dom = new JSDOM(readFileSync(file), { url, contentType: 'text/html' });
    text = new Readability(dom.window.document).parse()?.textContent ?? null;
    dom.window.close();
  } catch (error) {
    text = null;
  }
  process.stdout.write(`${JSON.stringify({ file, text })}\n`);
}
