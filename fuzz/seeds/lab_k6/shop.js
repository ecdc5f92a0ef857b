// A script as people write them: stages, thresholds, checks, groups, a helper, the environment.
import http from 'k6/http';
import { check, group, sleep } from 'k6';
import { uuidv4 } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';

const BASE = __ENV.BASE_URL || 'http://127.0.0.1:8900';
const JSON_HEADERS = { 'Content-Type': 'application/json' };

export const options = {
  stages: [
    { duration: '200ms', target: 4 },
    { duration: '1s', target: 4 },
    { duration: '200ms', target: 0 },
  ],
  thresholds: {
    http_req_failed: ['rate<0.01'],
    http_req_duration: ['p(95)<5000', { threshold: 'p(99)<9000', abortOnFail: true }],
    'http_req_duration{name:buy}': ['p(95)<5000'],
    my_own_trend: ['avg<1'],
  },
};

function home() {
  return http.get(`${BASE}/`);
}

export function setup() {
  return { token: 'x' };
}

export default function () {
  const res = home();
  check(res, { 'home is 200': (r) => r.status === 200, 'is fast': (r) => r.timings.duration < 900 });
  group('buy', () => {
    const body = JSON.stringify({ number: __ITER, id: uuidv4(), what: "a 'thing'" });
    const bought = http.post(`${BASE}/echo`, body, {
      headers: { ...JSON_HEADERS, Authorization: `Bearer ${__ENV.TOKEN}` },
      tags: { name: 'buy' },
    });
    check(bought, { bought: (r) => [200, 201].includes(r.status) && r.body.includes('thing') });
  });
  sleep(0.02);
}
