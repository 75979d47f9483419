import { describe, expect, it } from 'vitest'
import { findJava, majorOf, parseJavaVersion } from './java.ts'
import { UserError } from './user-error.ts'

describe('the version of a Java', () => {
  it.each([
    ['IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\nLIBC="gnu"', '17.0.15', 17],
    ['openjdk version "21" 2023-09-19\nOpenJDK Runtime Environment', '21', 21],
    ['java version "1.8.0_402"', '1.8.0_402', 8],
  ])('is read from %j', (text, version, major) => {
    expect(parseJavaVersion(text)).toBe(version)
    expect(majorOf(version)).toBe(major)
  })

  it('is unknown if the text does not contain one', () => {
    expect(parseJavaVersion('The operation could not be completed.')).toBeNull()
  })
})

it('without Java, the error says how to install it', async () => {
  const search = findJava({ PATH: '/nowhere' })
  await expect(search).rejects.toThrow(UserError)
  await expect(search).rejects.toThrow(/Java 17 or newer.*openjdk-17-jre-headless.*JAVA_HOME/u)
})
