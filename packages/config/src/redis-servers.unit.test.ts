import * as Result from 'effect/Result'
import { assert, describe, it } from 'vitest'
import { readRedisServers, type RedisServers } from './redis-servers.ts'

const read = (text: string): RedisServers => Result.getOrThrow(readRedisServers(text))

describe('the address of Redis', () => {
  it('of one server stays as it is', () => {
    for (const url of ['redis://127.0.0.1', 'rediss://hub:p%40ss@redis.example.com:6380/3?family=6'])
      assert.deepStrictEqual(read(url), { form: 'single', url })
  })

  it('of Sentinels has their names, the primary, and both passwords', () => {
    const servers = read(
      'rediss+sentinel://hub:p%40ss@one.test,two.test:26380,[2001:db8::1]:7/hub-redis.1?sentinel_username=s&sentinel_password=a%2Fb+c&tls_name=redis.test',
    )
    if (servers.form !== 'sentinel') return assert.fail(servers.form)
    assert.strictEqual(servers.primary, 'hub-redis.1')
    assert.strictEqual(servers.tlsName, 'redis.test')
    assert.deepStrictEqual(servers.sentinels, [
      'rediss://s:a%2Fb%2Bc@one.test:26379',
      'rediss://s:a%2Fb%2Bc@two.test:26380',
      'rediss://s:a%2Fb%2Bc@[2001:db8::1]:7',
    ])
    assert.strictEqual(servers.urlOf('redis-0.test', 6379), 'rediss://hub:p%40ss@redis-0.test:6379')
    assert.strictEqual(servers.urlOf('2001:db8::2', 6379), 'rediss://hub:p%40ss@[2001:db8::2]:6379')
  })

  it('of Sentinels needs no password', () => {
    const servers = read('redis+sentinel://127.0.0.1/hub')
    if (servers.form !== 'sentinel') return assert.fail(servers.form)
    assert.deepStrictEqual(servers.sentinels, ['redis://127.0.0.1:26379'])
    assert.strictEqual(servers.urlOf('127.0.0.1', 6379), 'redis://127.0.0.1:6379')
    const withPassword = read('redis+sentinel://127.0.0.1/hub?sentinel_password=p')
    if (withPassword.form !== 'sentinel') return assert.fail(withPassword.form)
    assert.deepStrictEqual(withPassword.sentinels, ['redis://:p@127.0.0.1:26379'])
  })

  it('of a cluster has its nodes', () => {
    const servers = read('rediss+cluster://:p@one.test,two.test:7000/')
    if (servers.form !== 'cluster') return assert.fail(servers.form)
    assert.deepStrictEqual(servers.nodes, ['rediss://:p@one.test:6379', 'rediss://:p@two.test:7000'])
    assert.isNull(servers.tlsName)
    assert.strictEqual(servers.urlOf('three.test', 6380), 'rediss://:p@three.test:6380')
  })

  it.each([
    ['private', /is something else/u],
    ['redis-sentinel://private/hub', /is something else/u],
    ['redis+cluster://private@', /host:port/u],
    ['redis://private:1,private:2', /several hosts.* Sentinels or a cluster/u],
    ['redis+sentinel://private:26379', /name of the primary/u],
    ['redis+sentinel://private:26379/', /name of the primary/u],
    ['redis+sentinel://private:26379/hub/0', /name of the primary/u],
    ['redis+sentinel://private:0/hub', /host:port/u],
    ['redis+sentinel://private:70000/hub', /host:port/u],
    ['redis+sentinel://private,,other/hub', /host:port/u],
    [
      'redis+sentinel://private/hub?password=private',
      /other than sentinel_username, sentinel_password, tls_name$/u,
    ],
    ['redis+sentinel://private/hub?sentinel_password=%private', /begin a percent-encoded octet/u],
    ['redis+cluster://private/0', /a cluster does not have/u],
    ['redis+cluster://private?sentinel_password=private', /has a parameter other than tls_name$/u],
  ])('%s is refused without its text', (text, problem) => {
    const refused = readRedisServers(text)
    if (Result.isSuccess(refused)) return assert.fail('is accepted')
    assert.match(refused.failure, problem)
    assert.notInclude(refused.failure, 'private')
  })
})
