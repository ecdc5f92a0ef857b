// Chromium through a proxy that looks into TLS, driven by playwright-core: what a page of scripts, forms, files, sockets and event streams
// comes to. Its one argument is JSON; it prints JSON.
const { chromium } = require(process.env.BROWSER_MODULES + '/playwright-core');
const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');

const said = JSON.parse(process.argv[2]);

(async () => {
  const browser = await chromium.launch({
    executablePath: said.chromium,
    args: ['--no-sandbox', '--disable-gpu', `--ignore-certificate-errors-spki-list=${said.spki}`],
    // Of itself it sends nothing for this machine to a proxy.
    proxy: { server: said.proxy, username: 'dev', password: said.key, bypass: '<-loopback>' },
  });
  const page = await browser.newPage();
  const failed = [];
  page.on('requestfailed', (request) => failed.push(`${request.url()} ${request.failure()?.errorText}`));
  const result = { failed };
  try {
    const answer = await page.goto(said.url, { timeout: 20_000 });
    result.status = answer.status();
    result.security = (await answer.securityDetails())?.issuer;
    await page.waitForFunction(() => window.done, null, { timeout: 20_000 }).catch(async (error) => {
      const at = await page.evaluate(() => JSON.stringify(window.so_far));
      throw new Error(`${error.message}; it came to ${at}; failed: ${failed.join(', ')}`);
    });
    result.script = await page.evaluate(() => window.result);
    await page.setInputFiles('input[type=file]', said.file);
    await Promise.all([page.waitForNavigation({ timeout: 20_000 }), page.click('#send')]);
    result.form = JSON.parse(await page.evaluate(() => document.body.innerText));
    await page.goto(said.url, { timeout: 20_000 });
    const [download] = await Promise.all([page.waitForEvent('download', { timeout: 20_000 }), page.click('#download')]);
    result.download = createHash('sha256').update(readFileSync(await download.path())).digest('hex');
    // A page that carries orders is not shown.
    const refused = await page.goto(said.refused, { timeout: 20_000 });
    result.refused = refused.status();
  } finally {
    await browser.close();
  }
  process.stdout.write(JSON.stringify(result));
})().catch((error) => {
  process.stderr.write(String(error.stack || error));
  process.exit(1);
});
