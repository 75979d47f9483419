/** Saved views: a name for a list with its filters. */
import { Views } from '@hub/operations'
import { endpoint, type EndpointGroup } from './endpoint.ts'
import { list } from './list.ts'

const NOT_FOUND = { view_not_found: { message: 'There is no such view that you see.', param: 'id' } }
const NAME_TAKEN = { view_name_taken: { message: 'Another view has this name.', param: 'name' } }

export const views: EndpointGroup = {
  name: 'views',
  title: 'Saved views',
  description: 'Lists with their filters under a name, for one person or for all hub staff.',
  endpoints: [
    ...list({
      operation: 'views.list',
      method: 'GET',
      path: '/v1/views',
      summary: 'List saved views',
      description: 'Your views and the shared ones, by name, of the lists that your role may read.',
      useCase: Views.list,
    }),
    endpoint({
      operation: 'views.read',
      method: 'GET',
      path: '/v1/views/:id',
      summary: 'Read a saved view',
      description: 'A view, and why its list cannot be read with its filters any more, if that is so.',
      useCase: Views.get,
      refusals: { ...NOT_FOUND, view_outdated: { message: 'This version does not have the list.' } },
    }),
    endpoint({
      operation: 'views.save',
      method: 'POST',
      path: '/v1/views',
      summary: 'Save a view',
      description:
        'A list with its filters under a name. To share it with all hub staff, you need the permission `views.share`.',
      useCase: Views.save,
      defaults: { shared: false },
      refusals: { ...NAME_TAKEN, too_many_views: { message: 'You have too many views of this kind.' } },
    }),
    endpoint({
      operation: 'views.change',
      method: 'PATCH',
      path: '/v1/views/:id',
      summary: 'Rename or share a view',
      description: 'What is left out stays. A shared view needs the permission `views.share`.',
      useCase: Views.change,
      refusals: { ...NOT_FOUND, ...NAME_TAKEN },
    }),
    endpoint({
      operation: 'views.delete',
      method: 'DELETE',
      path: '/v1/views/:id',
      summary: 'Delete a view',
      description: 'A shared view needs the permission `views.share`. The answer is the view as it was.',
      useCase: Views.remove,
      refusals: NOT_FOUND,
    }),
  ],
}
