PUBLIC = []
