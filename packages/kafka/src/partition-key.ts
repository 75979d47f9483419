/** The key of a partition in maps and sets. */
export const partitionKey = (topic: string, partition: number): string => `${topic}/${partition}`
