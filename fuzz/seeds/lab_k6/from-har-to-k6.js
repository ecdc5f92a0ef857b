// Creator: t 1

import { sleep, group } from 'k6'
import http from 'k6/http'

export const options = {}

export default function main() {
  let response

  group('p1 - Shop', function () {
    response = http.get('http://127.0.0.1:8900/echo?x=1', {
      headers: {
        Accept: '*/*',
      },
    })

    response = http.post('http://127.0.0.1:8900/echo', '{"a":1,"b":[true,null]}', {
      headers: {
        'Content-Type': 'application/json',
      },
    })
  })

  // Automatically added sleep
  sleep(1)
}
