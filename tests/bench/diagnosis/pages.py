def renew(cases, said):
    pass
